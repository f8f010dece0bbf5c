/* Which noise has been learnt: accuracy by the number of rows and the strength of their noise, after a step. */
(() => {
  "use strict";
  const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [640, 300, 64, 10, 52];
  const LEVELS = [0.9, 0.99];
  /* Seven colours of viridis, and whether letters on them are dark. */
  const COLOURS = ["#440154", "#443983", "#31688e", "#21918c", "#35b779", "#90d743", "#fde725"];

  function element(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const shade = (accuracy) => Math.max(0, Math.min(COLOURS.length - 1, Math.floor(14 * (accuracy - 0.5))));

  class Figure {
    constructor(root) {
      this.flows = JSON.parse(root.querySelector("script").textContent);
      [this.svg, this.said, this.rows] = ["svg", "output", "tbody"].map((name) => root.querySelector(name));
      this.slider = root.querySelector("[name=look]");
      this.slider.max = this.flows.steps.length - 1;
      this.slider.value = this.slider.max;
      this.slider.addEventListener("input", () => this.draw());
      this.draw();
      root.classList.add("moves");
    }

    draw() {
      const look = Number(this.slider.value);
      this.now = this.flows.accuracy.map((row) => row.map((flow) => flow[look]));
      this.svg.replaceChildren(...this.cells(), ...this.axes());
      const step = `after ${Math.round(this.flows.steps[look]).toLocaleString("en")} steps`;
      this.said.textContent = step;
      this.slider.setAttribute("aria-valuetext", step);
      this.tell();
    }

    size() {
      const { rows, multipliers } = this.flows;
      return [(WIDTH - LEFT) / rows.length, (HEIGHT - TOP - BOTTOM) / multipliers.length];
    }

    /* The strongest noise is on top. */
    cells() {
      const [wide, high] = this.size();
      const last = this.flows.multipliers.length - 1;
      return this.now.flatMap((row, m) => row.map((accuracy, k) => {
        const [x, y, colour] = [LEFT + k * wide, TOP + (last - m) * high, shade(accuracy)];
        const cell = element("g", {});
        cell.append(
          element("rect", { x, y, width: wide - 1, height: high - 1, fill: COLOURS[colour] }),
          element("text", { x: x + wide / 2, y: y + high / 2 + 5, "text-anchor": "middle", style: `fill: ${colour > 3 ? "#000" : "#fff"}` }, (100 * accuracy).toFixed(1)),
        );
        return cell;
      }));
    }

    axes() {
      const [wide, high] = this.size();
      const { rows, multipliers } = this.flows;
      const bottom = HEIGHT - BOTTOM;
      return [
        ...rows.map((k, i) => element("text", { x: LEFT + (i + 0.5) * wide, y: bottom + 18, "text-anchor": "middle" }, k.toLocaleString("en"))),
        ...multipliers.map((m, i) => element("text", { x: LEFT - 8, y: bottom - (i + 0.5) * high + 5, "text-anchor": "end" }, m)),
        element("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, "rows of noise, k"),
        element("text", { transform: `translate(14 ${(TOP + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, "σ over log k/√k"),
      ];
    }

    tell() {
      const all = this.now.flat();
      this.rows.replaceChildren(...LEVELS.map((level) => {
        const row = document.createElement("tr");
        const texts = [`right in ${100 * level} % or more`, `${all.filter((one) => one >= level).length} of ${all.length}`];
        row.append(...texts.map((text, i) => {
          const cell = document.createElement(i ? "td" : "th");
          cell.textContent = text;
          return cell;
        }));
        return row;
      }));
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const root of document.querySelectorAll(".phase.movable")) new Figure(root);
  });
})();
