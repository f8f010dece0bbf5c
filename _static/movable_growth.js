/* What one would choose at a step after growing: final KL of all candidates against their KL at that step. */
(() => {
  "use strict";
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 340, 60, 14, 34, 44];
  const COLOURS = { duplicate: "#0173b2", random: "#de8f05", silent: "#029e73", muted: "#d55e00" };
  const SHAPES = {
    duplicate: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0",
    random: "M-4.5-4.5H4.5V4.5H-4.5Z",
    silent: "M0-6L6 5H-6Z",
    muted: "M0-6L6 0L0 6L-6 0Z",
  };

  function element(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const span = (numbers) => [Math.min(...numbers), Math.max(...numbers)];
  const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

  /* Ranks from 1, ties shared: what SciPy's `rankdata` does. */
  function ranks(numbers) {
    return numbers.map((own) => {
      const below = numbers.filter((other) => other < own).length;
      const equal = numbers.filter((other) => other === own).length;
      return below + (equal + 1) / 2;
    });
  }

  function spearman(one, other) {
    const [a, b] = [ranks(one), ranks(other)];
    const centre = (a.length + 1) / 2;
    const product = (x, y) => x.reduce((sum, value, i) => sum + (value - centre) * (y[i] - centre), 0);
    return product(a, b) / Math.sqrt(product(a, a) * product(b, b));
  }

  /* What `statistics/prediction.py` does: the mean in Fisher's z, where correlations can be averaged. */
  function meanCorrelation(found) {
    const most = 1 - 1e-6;
    return Math.tanh(mean(found.map((one) => Math.atanh(Math.max(-most, Math.min(most, one))))));
  }

  /* Index of the smallest number, the first one of several. */
  const argmin = (numbers) => numbers.indexOf(Math.min(...numbers));

  function regret(seen, final) {
    const [best, worst] = span(final);
    return (final[argmin(seen)] - best) / (worst - best);
  }

  class Figure {
    constructor(root) {
      this.panels = JSON.parse(root.querySelector("script").textContent);
      const control = (name) => root.querySelector(`[name="${name}"]`);
      [this.panel, this.seed, this.slider] = ["panel", "seed", "look"].map(control);
      [this.svg, this.said, this.rows] = ["svg", "output", "tbody"].map((name) => root.querySelector(name));
      for (const name of Object.keys(this.panels)) this.panel.add(new Option(name));
      this.panel.addEventListener("change", () => this.choosePanel());
      this.seed.addEventListener("change", () => this.draw());
      this.slider.addEventListener("input", () => this.draw());
      this.choosePanel();
      root.classList.add("moves");
    }

    choosePanel() {
      this.runs = this.panels[this.panel.value];
      this.seed.replaceChildren(...this.runs.seeds.map((seed, at) => new Option(`seed ${seed}`, at)));
      this.slider.max = this.runs.steps.length - 1;
      this.slider.value = 0;
      this.draw();
    }

    draw() {
      const [look, seed] = [Number(this.slider.value), Number(this.seed.value)];
      [this.seen, this.final] = [this.runs.seen[seed][look], this.runs.final[seed]];
      this.svg.replaceChildren(...this.legend(), ...this.axes(), ...this.points());
      const step = `step ${this.runs.steps[look]} of ${this.runs.steps.at(-1)}`;
      this.said.textContent = step;
      this.slider.setAttribute("aria-valuetext", step);
      this.tell(look);
    }

    place(at) {
      const within = (value, [low, high]) => 0.04 + (0.92 * (value - low)) / (high - low || 1);
      const [across, up] = [within(this.seen[at], span(this.seen)), within(this.final[at], span(this.final))];
      return [LEFT + (WIDTH - LEFT - RIGHT) * across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up];
    }

    legend() {
      const fillings = [...new Set(this.runs.operators.map(([, filling]) => filling))];
      return fillings.flatMap((filling, i) => [
        element("path", { d: SHAPES[filling], fill: COLOURS[filling], transform: `translate(${LEFT + 8 + 110 * i} 14)` }),
        element("text", { x: LEFT + 20 + 110 * i, y: 18 }, filling),
      ]);
    }

    axes() {
      const bottom = HEIGHT - BOTTOM;
      const frame = element("rect", { class: "grid", fill: "none", x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: bottom - TOP });
      const ends = (values, at) => element("text", at, values.toPrecision(3));
      const [low, high] = span(this.seen);
      const [best, worst] = span(this.final);
      return [
        frame,
        ends(low, { x: LEFT + 8, y: bottom + 16 }),
        ends(high, { x: WIDTH - RIGHT - 8, y: bottom + 16, "text-anchor": "end" }),
        ends(best, { x: LEFT - 6, y: bottom - 6, "text-anchor": "end" }),
        ends(worst, { x: LEFT - 6, y: TOP + 14, "text-anchor": "end" }),
        element("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, "KL at this step (nats)"),
        element("text", { transform: `translate(14 ${(TOP + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, "KL at the end (nats)"),
      ];
    }

    points() {
      const chosen = argmin(this.seen);
      const made = this.runs.operators.map(([name, filling], at) => {
        const [x, y] = this.place(at);
        const point = element("path", { d: SHAPES[filling], fill: COLOURS[filling], transform: `translate(${x} ${y})` });
        point.append(element("title", {}, `${name}: KL ${this.seen[at]} now, ${this.final[at]} at the end`));
        return point;
      });
      const [cx, cy] = this.place(chosen);
      return [...made, element("circle", { class: "chosen", cx, cy, r: 10, fill: "none" })];
    }

    tell(look) {
      const { seen, final, operators, steps } = this.runs;
      const all = (found) => final.map((own, seed) => found(seen[seed][look], own));
      const chosen = argmin(this.seen);
      const trying = (100 * (operators.length - 1) * steps[look]) / steps.at(-1);
      const lot = (_, own) => (mean(own) - span(own)[0]) / (span(own)[1] - span(own)[0]);
      const numbers = (found, middle = mean) =>
        [found(this.seen, this.final), middle(all(found))].map((number) => number.toFixed(2));
      this.rows.replaceChildren(
        this.row("best so far (ringed)", operators[chosen][0], ""),
        this.row("Spearman with the end", ...numbers(spearman, meanCorrelation)),
        this.row("relative regret of choosing now", ...numbers(regret)),
        this.row("the same at random", ...numbers(lot)),
        this.row("cost of the trials (one training: 100 %)", `${trying.toFixed(0)} %`, ""),
      );
    }

    row(...texts) {
      const row = document.createElement("tr");
      row.append(...texts.map((text, i) => {
        const cell = document.createElement(i ? "td" : "th");
        cell.textContent = text;
        return cell;
      }));
      return row;
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const root of document.querySelectorAll(".growth.movable")) new Figure(root);
  });
})();
