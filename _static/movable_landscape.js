/* SGD on a loss of two parameters, z = a³ + b³: a reader sets rate, batch and label noise, and the path follows. */
(() => {
  "use strict";
  const [SIZE, LOW, HIGH] = [420, -0.3, 1.6]; // the drawing's side in pixels, and its parameters
  const SHOWN = 800; // points of a path
  const LARGEST = 1e3; // a parameter beyond it has diverged
  const STAR = "M0-8L2-2 8-2 3 2 5 8 0 4-5 8-3 2-8-2-2-2Z";
  const SECONDS = 6; // that a path takes to play
  const [SHARP, FLAT] = ["#f0b400", "#3b3bb3"];

  /* Mulberry32: uniform numbers that a seed repeats. */
  function uniform(seed) {
    return () => {
      seed = (seed + 0x6d2b79f5) | 0;
      let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  }

  /* The share of the first word among a batch's labels; without noise it is its probability. */
  function label({ q, batch, noise }, draw) {
    if (!noise) return q;
    let drawn = 0;
    for (let i = 0; i < batch; i++) drawn += draw() < q;
    return drawn / batch;
  }

  /* Return the parameters after every step; it ends where they diverge. */
  function descend(choice) {
    const draw = uniform(choice.seed);
    const path = [choice.start];
    for (let step = 0; step < choice.steps; step++) {
      const [a, b] = path[step];
      const excess = 1 / (1 + Math.exp(-(a ** 3) - b ** 3)) - label(choice, draw);
      const next = [a, b].map((theta) => theta - choice.rate * excess * 3 * theta ** 2);
      path.push(next);
      if (!next.every((theta) => Math.abs(theta) < LARGEST)) break;
    }
    return path;
  }

  function kl(q, [a, b]) {
    const z = a ** 3 + b ** 3;
    const nats = q * (Math.log(q) + Math.log1p(Math.exp(-z))) + (1 - q) * (Math.log(1 - q) + Math.log1p(Math.exp(z)));
    return Math.max(0, nats); // rounding may leave less
  }

  /* A minimiser close by: Newton's method on z(θ) = log(q / (1 - q)), along the gradient of z. */
  function near(q, [a, b]) {
    for (let i = 0; i < 20; i++) {
      const [da, db] = [3 * a ** 2, 3 * b ** 2];
      const move = (a ** 3 + b ** 3 - Math.log(q / (1 - q))) / (da ** 2 + db ** 2);
      [a, b] = [a - move * da, b - move * db];
    }
    return [a, b];
  }

  const trace = (q, [a, b]) => 9 * q * (1 - q) * (a ** 4 + b ** 4); // on Γ

  function element(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const place = ([a, b]) => [a, LOW + HIGH - b].map((theta) => (((theta - LOW) / (HIGH - LOW)) * SIZE).toFixed(1));

  class Landscape {
    constructor(root) {
      Object.assign(this, JSON.parse(root.querySelector("script").textContent), { seed: 0 });
      [this.rate, this.batch, this.noise] = ["rate", "batch", "noise"].map((name) => root.querySelector(`[name="${name}"]`));
      [this.svg, this.said] = [root.querySelector("svg"), root.querySelector("output")];
      this.least = Math.min(...this.minimisers.map((point) => point[2]));
      for (const control of [this.rate, this.batch, this.noise]) control.addEventListener("input", () => this.show());
      root.querySelector('[name="again"]').addEventListener("click", () => {
        this.seed += 1;
        this.show();
      });
      root.querySelector('[name="play"]').addEventListener("click", () => this.play());
      this.show();
      root.classList.add("moves");
    }

    get choice() {
      const { q, start, steps, seed } = this;
      const rate = 10 ** Number(this.rate.value);
      return { q, start, steps, seed, rate, batch: Number(this.batch.value), noise: this.noise.checked };
    }

    show() {
      cancelAnimationFrame(this.frame);
      this.path = descend(this.choice);
      this.showUpTo(this.path.length - 1);
      this.rate.setAttribute("aria-valuetext", this.choice.rate.toPrecision(2));
    }

    /* Draw the path step by step. */
    play() {
      cancelAnimationFrame(this.frame);
      const [began, last] = [performance.now(), this.path.length - 1];
      const next = (now) => {
        const step = Math.min(last, Math.max(1, Math.round((last * (now - began)) / (1000 * SECONDS))));
        this.showUpTo(step);
        if (step < last) this.frame = requestAnimationFrame(next);
      };
      this.frame = requestAnimationFrame(next);
    }

    showUpTo(step) {
      this.svg.replaceChildren(...this.axes(), ...this.drawn(this.path.slice(0, step + 1)), ...this.key());
      this.said.textContent = this.told(step, this.path[step]);
    }

    axes() {
      const ticks = [0, 0.5, 1].flatMap((theta) => [
        element("text", { x: place([theta, LOW])[0], y: SIZE - 20, "text-anchor": "middle" }, theta),
        element("text", { x: 8, y: Number(place([LOW, theta])[1]) + 4 }, theta),
      ]);
      return [...ticks, element("text", { x: SIZE - 24, y: SIZE - 20 }, "θ₁"), element("text", { x: 8, y: 18 }, "θ₂")];
    }

    key() {
      const marks = [[SHARP, "sharp minimum"], [FLAT, "flat minimum"]];
      return [
        ...marks.flatMap(([fill, name], at) => [
          element("circle", { cx: SIZE - 130, cy: 20 + 20 * at, r: 4, fill }),
          element("text", { x: SIZE - 118, y: 24 + 20 * at }, name),
        ]),
        element("circle", { class: "from", cx: SIZE - 130, cy: 60, r: 5 }),
        element("text", { x: SIZE - 118, y: 64 }, "start"),
        element("path", { class: "to", d: STAR, transform: `translate(${SIZE - 130} 80)` }),
        element("text", { x: SIZE - 118, y: 84 }, "end"),
      ];
    }

    /* Minimisers, the flatter the darker. */
    curve() {
      const most = Math.max(...this.minimisers.map((point) => point[2]));
      return this.minimisers.map(([a, b, sharp]) => {
        const [cx, cy] = place([a, b]);
        const share = (100 * (sharp - this.least)) / (most - this.least);
        return element("circle", { cx, cy, r: 4, style: `fill: color-mix(in oklab, ${SHARP} ${share.toFixed(0)}%, ${FLAT})` });
      });
    }

    drawn(path) {
      const every = Math.max(1, Math.floor(path.length / SHOWN));
      const kept = path.filter((_, step) => step < 40 || step % every === 0 || step === path.length - 1);
      const [first, last] = [kept[0], kept[kept.length - 1]].map(place);
      return [
        element("polyline", { class: "run", points: kept.map(place).join(" ") }),
        ...this.curve(),
        element("circle", { class: "from", cx: first[0], cy: first[1], r: 5 }),
        element("path", { class: "to", d: STAR, transform: `translate(${last.join(" ")})` }),
      ];
    }

    told(steps, end) {
      if (this.path.length <= this.steps && steps === this.path.length - 1) return `diverged after ${steps} steps: the learning rate is too large`;
      const [q, at] = [this.q, end.map((theta) => theta.toFixed(3)).join(", ")];
      const close = trace(q, near(q, end)).toFixed(3);
      const path = `learning rate ${this.choice.rate.toPrecision(2)}, ${steps} steps: θ = (${at}), KL ${kl(q, end).toExponential(1)}`;
      return `${path}. Trace at the nearest minimum: ${close}; at the flattest: ${this.least.toFixed(3)}`;
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const root of document.querySelectorAll(".sgd-landscape")) new Landscape(root);
  });
})();
