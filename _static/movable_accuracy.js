/* Accuracy of two sizes against KL, with a line of equal loss that a reader moves: each draw is interpolated to it. */
(() => {
  "use strict";
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 320, 46, 14, 10, 40];
  const COLOURS = ["#0173b2", "#b35c00"];
  const SHAPES = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-4-4H4V4H-4Z"];
  const STEPS = 100; // of the slider
  const START = 3; // per cent

  /* What `at_kl` of `saturated.py` does: linear in log KL between the neighbours that enclose it. */
  function valueAt(kl, values, target) {
    for (let i = 1; i < kl.length; i++) {
      if (kl[i - 1] >= target && target >= kl[i]) {
        const share = Math.log(kl[i - 1] / target) / Math.log(kl[i - 1] / kl[i]);
        return share * values[i] + (1 - share) * values[i - 1];
      }
    }
    return null; // out of its reach
  }

  function element(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const span = (numbers) => [Math.min(...numbers), Math.max(...numbers)];
  const mean = (numbers) => numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
  const percent = (kl) => `${kl.toPrecision(2)} %`;

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
      this.runs = JSON.parse(root.querySelector("script").textContent);
      this.sizes = [...new Set(this.runs.map((run) => run.size))];
      const control = (name) => root.querySelector(`[name="${name}"]`);
      [this.reading, this.slider] = ["reading", "kl"].map(control);
      [this.svg, this.said, this.rows] = ["svg", "output", "tbody"].map((name) => root.querySelector(name));
      for (const name of Object.keys(this.runs[0].accuracy)) this.reading.add(new Option(name));
      this.reading.addEventListener("change", () => this.draw());
      this.slider.addEventListener("input", () => this.move());
      for (const kind of ["pointerdown", "pointermove"]) this.svg.addEventListener(kind, (event) => this.drag(event));
      [this.low, this.high] = span(this.runs.flatMap((run) => run.kl));
      this.exact = Math.min(this.high, Math.max(this.low, START));
      this.slider.value = Math.round(STEPS * this.share(this.exact));
      this.draw();
      root.classList.add("moves");
    }

    /* The KL of the line; the slider is linear in its logarithm, and falls to the right as training does. */
    get kl() {
      return this.exact ?? this.high * (this.low / this.high) ** (this.slider.value / STEPS);
    }

    /* How far to the right a KL is, from 0 to 1. */
    share(kl) {
      return Math.log(kl / this.high) / Math.log(this.low / this.high);
    }

    x(kl) {
      return LEFT + (WIDTH - LEFT - RIGHT) * this.share(kl);
    }

    y(accuracy) {
      const [low, high] = this.range;
      return TOP + ((HEIGHT - TOP - BOTTOM) * (high - accuracy)) / (high - low);
    }

    draw() {
      const [low, high] = span(this.runs.flatMap((run) => run.accuracy[this.reading.value]));
      this.range = [low - 1, high + 1];
      this.svg.replaceChildren(...this.axes(), ...this.key(), ...this.runs.flatMap((run) => this.run(run)));
      this.line = this.svg.appendChild(element("line", { class: "equal", y1: TOP, y2: HEIGHT - BOTTOM }));
      this.means = this.sizes.map((_, at) => this.svg.appendChild(element("path", { class: "mean", d: SHAPES[at], fill: COLOURS[at] })));
      this.show();
    }

    axes() {
      const bottom = HEIGHT - BOTTOM;
      const across = logTicks(this.low, this.high).map((tick) => element("text", { x: this.x(tick), y: bottom + 16, "text-anchor": "middle" }, tick));
      const up = ticks(...this.range).flatMap((tick) => [
        element("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: this.y(tick), y2: this.y(tick) }),
        element("text", { x: LEFT - 6, y: this.y(tick) + 4, "text-anchor": "end" }, tick),
      ]);
      const below = element("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "KL (% of the bag of words’)");
      const beside = element("text", { transform: `translate(12 ${(TOP + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, "accuracy (%)");
      return [...across, ...up, below, beside];
    }

    key() {
      return this.sizes.flatMap((size, at) => [
        element("path", { d: SHAPES[at], fill: COLOURS[at], transform: `translate(${LEFT + 14} ${TOP + 10 + 18 * at})` }),
        element("text", { x: LEFT + 24, y: TOP + 14 + 18 * at }, size),
      ]);
    }

    run(run) {
      const at = this.sizes.indexOf(run.size);
      const accuracy = run.accuracy[this.reading.value];
      const places = run.kl.map((kl, i) => [this.x(kl), this.y(accuracy[i])]);
      const line = element("polyline", { class: "run", points: places.join(" "), stroke: COLOURS[at] });
      const points = places.map(([x, y], i) => {
        const point = element("path", { class: "point", d: SHAPES[at], transform: `translate(${x} ${y}) scale(0.7)`, fill: COLOURS[at] });
        const told = `${run.size}, draw ${run.draw}, ${run.steps[i]} steps: KL ${percent(run.kl[i])}, accuracy ${accuracy[i].toFixed(1)} %`;
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

    /* The accuracies of both sizes on the draws in which both reach the line: an average over others compares other draws. */
    pairs() {
      const draws = [...new Set(this.runs.map((run) => run.draw))];
      const at = (size, draw) => {
        const own = this.runs.find((run) => run.size === size && run.draw === draw);
        return own ? valueAt(own.kl, own.accuracy[this.reading.value], this.kl) : null;
      };
      const both = draws.map((draw) => this.sizes.map((size) => at(size, draw)));
      return [both.filter((values) => !values.includes(null)), draws.length];
    }

    show() {
      const x = this.x(this.kl);
      this.line.setAttribute("x1", x);
      this.line.setAttribute("x2", x);
      const [both, draws] = this.pairs();
      const columns = this.sizes.map((_, at) => both.map((values) => values[at]));
      const leads = both.map(([small, large]) => large - small);
      const lead = mean(leads);
      const told = both.length ? `${this.sizes[1]} ${lead < 0 ? "trails" : "leads"} by ${Math.abs(lead).toFixed(1)} points` : "no draw has both sizes there";
      this.said.textContent = `${told} at ${percent(this.kl)} (${both.length} of ${draws} draws)`;
      this.slider.setAttribute("aria-valuetext", this.said.textContent);
      this.means.forEach((point, at) => point.setAttribute("transform", both.length ? `translate(${x} ${this.y(mean(columns[at]))}) scale(2)` : "scale(0)"));
      const names = [...this.sizes, "lead in each draw"];
      this.rows.replaceChildren(...[...columns, leads].map((values, at) => this.row(names[at], values)));
    }

    row(name, values) {
      const shown = (number) => number.toFixed(2).replace("-", "−");
      const cells = values.length ? [shown(mean(values)), span(values).map(shown).join(" to ")] : ["–", "–"];
      const row = document.createElement("tr");
      row.append(...[name, ...cells].map((text, i) => {
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
