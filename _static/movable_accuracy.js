/* Accuracy against KL with a line of equal loss that a reader moves: every run is interpolated to it. */
(() => {
  "use strict";
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 320, 46, 14, 10, 40];
  const COLOURS = ["#0173b2", "#de8f05", "#029e73", "#cc78bc", "#ca9161"];
  const SHAPES = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-4-4H4V4H-4Z", "M0-5L5 4H-5Z", "M0-5L5 0L0 5L-5 0Z", "M0 5L5-4H-5Z"];
  const STEPS = 1000; // of the slider

  /* What `statistics/equal_kl.py` does: linear in log KL between the neighbours of the last crossing. */
  function valueAt(kl, values, target) {
    for (let i = kl.length - 1; i >= 0; i--) {
      if (kl[i] === target) return values[i];
      if (i > 0 && (kl[i - 1] - target) * (kl[i] - target) < 0) {
        const share = Math.log(kl[i - 1] / target) / Math.log(kl[i - 1] / kl[i]);
        return share * values[i] + (1 - share) * values[i - 1];
      }
    }
    return null; // out of this run's reach
  }

  function element(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const span = (numbers) => [Math.min(...numbers), Math.max(...numbers)];
  const nats = (kl) => `${kl.toPrecision(3)} nats`;

  function ticks(low, high) {
    const step = [1, 2, 5, 10, 20, 50].find((width) => (high - low) / width <= 6) ?? 100;
    const first = Math.ceil(low / step) * step;
    return Array.from({ length: Math.floor((high - first) / step) + 1 }, (_, i) => first + i * step);
  }

  function logTicks(low, high) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
      for (const digit of [1, 2, 5]) found.push(Number(`${digit}e${power}`));
    return found.filter((tick) => low <= tick && tick <= high);
  }

  class Figure {
    constructor(root) {
      this.panels = JSON.parse(root.querySelector("script").textContent);
      const control = (name) => root.querySelector(`[name="${name}"]`);
      [this.panel, this.task, this.slider] = ["panel", "task", "kl"].map(control);
      [this.svg, this.said, this.rows] = ["svg", "output", "tbody"].map((name) => root.querySelector(name));
      for (const name of Object.keys(this.panels)) this.panel.add(new Option(name));
      this.panel.addEventListener("change", () => this.choosePanel());
      this.task.addEventListener("change", () => this.draw());
      this.slider.addEventListener("input", () => this.move());
      for (const kind of ["pointerdown", "pointermove"]) this.svg.addEventListener(kind, (event) => this.drag(event));
      this.choosePanel();
      root.classList.add("moves");
    }

    choosePanel() {
      this.runs = this.panels[this.panel.value];
      this.groups = [...new Set(this.runs.map((run) => run.group))];
      this.task.replaceChildren(...Object.keys(this.runs[0].accuracy).map((name) => new Option(name)));
      [this.low, this.high] = span(this.runs.flatMap((run) => run.kl));
      this.place(Math.max(...this.runs.map((run) => Math.min(...run.kl)))); // which every run reaches
      this.draw();
    }

    /* The KL of the line; the slider is linear in its logarithm, and falls to the right as training does. */
    get kl() {
      return this.exact ?? this.high * (this.low / this.high) ** (this.slider.value / STEPS);
    }

    /* How far to the right a KL is, from 0 to 1. */
    share(kl) {
      return Math.log(kl / this.high) / Math.log(this.low / this.high);
    }

    place(kl) {
      this.slider.value = Math.round(STEPS * this.share(kl));
      this.exact = kl;
    }

    x(kl) {
      return LEFT + (WIDTH - LEFT - RIGHT) * this.share(kl);
    }

    y(accuracy) {
      const [low, high] = this.range;
      return TOP + ((HEIGHT - TOP - BOTTOM) * (high - accuracy)) / (high - low);
    }

    draw() {
      const [low, high] = span(this.runs.flatMap((run) => run.accuracy[this.task.value]));
      this.range = [low - 1, high + 1];
      this.svg.replaceChildren(...this.axes(), ...this.runs.flatMap((run) => this.run(run)));
      this.line = this.svg.appendChild(element("line", { class: "equal", y1: TOP, y2: HEIGHT - BOTTOM }));
      this.show();
    }

    axes() {
      const bottom = HEIGHT - BOTTOM;
      const across = logTicks(this.low, this.high).map((tick) => element("text", { x: this.x(tick), y: bottom + 16, "text-anchor": "middle" }, tick));
      const up = ticks(...this.range).flatMap((tick) => [
        element("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: this.y(tick), y2: this.y(tick) }),
        element("text", { x: LEFT - 6, y: this.y(tick) + 4, "text-anchor": "end" }, tick),
      ]);
      const below = element("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "KL to the truth (nats a masked token)");
      return [...across, ...up, below];
    }

    run(run) {
      const at = this.groups.indexOf(run.group) % COLOURS.length;
      const accuracy = run.accuracy[this.task.value];
      const places = run.kl.map((kl, i) => [this.x(kl), this.y(accuracy[i])]);
      const line = element("polyline", { class: "run", points: places.join(" "), stroke: COLOURS[at] });
      const points = places.map(([x, y], i) => {
        const point = element("path", { d: SHAPES[at], transform: `translate(${x} ${y})`, fill: COLOURS[at] });
        const told = `${run.group}, seed ${run.seed}, step ${run.step[i]}: KL ${nats(run.kl[i])}, trace ${run.trace[i]}, accuracy ${accuracy[i].toFixed(2)} %`;
        point.append(element("title", {}, told));
        return point;
      });
      return [line, ...points];
    }

    move() {
      this.exact = undefined;
      this.show();
    }

    drag(event) {
      if (!event.buttons) return;
      const { left, width } = this.svg.getBoundingClientRect();
      const x = ((event.clientX - left) * WIDTH) / width;
      this.slider.value = Math.round((STEPS * (x - LEFT)) / (WIDTH - LEFT - RIGHT));
      this.move();
    }

    show() {
      const x = this.x(this.kl);
      this.line.setAttribute("x1", x);
      this.line.setAttribute("x2", x);
      this.said.textContent = nats(this.kl);
      this.slider.setAttribute("aria-valuetext", nats(this.kl));
      this.rows.replaceChildren(...this.groups.map((group) => this.row(group)));
    }

    row(group) {
      const own = this.runs.filter((run) => run.group === group);
      const found = own.map((run) => valueAt(run.kl, run.accuracy[this.task.value], this.kl)).filter((value) => value !== null);
      const mean = found.reduce((sum, value) => sum + value, 0) / found.length;
      const cells = found.length ? [mean.toFixed(2), span(found).map((end) => end.toFixed(2)).join(" to ")] : ["–", "–"];
      const row = document.createElement("tr");
      row.append(...[group, ...cells, `${found.length} of ${own.length}`].map((text, i) => {
        const cell = document.createElement(i ? "td" : "th");
        cell.textContent = text;
        return cell;
      }));
      return row;
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const root of document.querySelectorAll(".equal-loss")) new Figure(root);
  });
})();
