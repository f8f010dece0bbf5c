/* Attention of one token along the exact flow: a bar for each kind of sequence, the deciding token in blue. */
(() => {
  "use strict";
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 340, 50, 14, 34, 60];
  const COLOURS = { decides: "#0173b2", list: "#de8f05", others: "#949494" };
  const NAMES = { decides: "decides the label", list: "later in the list", others: "all others" };

  function element(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  class Figure {
    constructor(root) {
      this.given = JSON.parse(root.querySelector("script").textContent);
      const control = (name) => root.querySelector(`[name="${name}"]`);
      [this.readout, this.slider] = ["readout", "time"].map(control);
      [this.svg, this.said, this.rows] = ["svg", "output", "tbody"].map((name) => root.querySelector(name));
      for (const name of Object.keys(this.given.flows)) {
        this.readout.add(new Option(name === "theorem" ? "Theorem 4.3's c" : `c = ${name}`, name));
      }
      this.readout.value = this.liveliest();
      this.readout.addEventListener("change", () => this.choose());
      this.slider.addEventListener("input", () => this.draw());
      this.choose();
      root.classList.add("moves");
    }

    choose() {
      this.flow = this.given.flows[this.readout.value];
      this.slider.max = this.flow.times.length - 1;
      const means = this.means(this.flow);
      const half = (means[0] + means[means.length - 1]) / 2;
      this.slider.value = Math.max(0, means.findIndex((share) => share >= half)); // where something happens
      this.draw();
    }

    /* Mean attention on the deciding token, by time. */
    means({ scores }) {
      const { counts, masses } = this.given;
      return scores.map((own) => this.attention(own).reduce((sum, p, i) => sum + masses[i] * p[this.deciding(counts[i])], 0));
    }

    /* The read-out at which attention moves most gradually: with most times between its ends. */
    liveliest() {
      const between = Object.entries(this.given.flows).map(([name, flow]) => {
        const means = this.means(flow);
        const [first, last] = [means[0], means[means.length - 1]];
        return [means.filter((share) => share > first + 0.1 * (last - first) && share < last - 0.1 * (last - first) && last - first > 0.1).length, name];
      });
      return between.reduce((best, own) => (own[0] > best[0] ? own : best))[1];
    }

    /* Attention in every pattern: a token of the list each, then all others together. */
    attention(scores) {
      const top = Math.max(...scores);
      return this.given.counts.map((counts) => {
        const weights = counts.map((count, at) => count * Math.exp(scores[at] - top));
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        return weights.map((weight) => weight / total);
      });
    }

    deciding(counts) {
      return counts.findIndex((count, at) => count > 0 && at < this.given.rules);
    }

    draw() {
      const at = Number(this.slider.value);
      const found = this.attention(this.flow.scores[at]);
      this.svg.replaceChildren(...this.legend(), ...this.axes(), ...found.flatMap((p, i) => this.bar(p, i)));
      const time = `time ${this.flow.times[at].toPrecision(3)}`;
      this.said.textContent = time;
      this.slider.setAttribute("aria-valuetext", time);
      this.tell(at);
    }

    legend() {
      return Object.keys(COLOURS).flatMap((kind, i) => [
        element("rect", { x: LEFT + 170 * i, y: 8, width: 12, height: 12, fill: COLOURS[kind] }),
        element("text", { x: LEFT + 18 + 170 * i, y: 18 }, NAMES[kind]),
      ]);
    }

    height(share) {
      return (HEIGHT - TOP - BOTTOM) * share;
    }

    axes() {
      const bottom = HEIGHT - BOTTOM;
      const marks = [0, 0.5, 1].flatMap((share) => [
        element("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: bottom - this.height(share), y2: bottom - this.height(share) }),
        element("text", { x: LEFT - 6, y: bottom - this.height(share) + 4, "text-anchor": "end" }, share),
      ]);
      return [
        ...marks,
        element("text", { transform: `translate(14 ${(TOP + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, "attention"),
        element("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, "places of the list that occur (share of sequences)"),
      ];
    }

    bar(p, at) {
      const { counts, masses, rules } = this.given;
      const step = (WIDTH - LEFT - RIGHT) / counts.length;
      const decides = this.deciding(counts[at]);
      const list = p.slice(0, rules).reduce((sum, share) => sum + share, 0) - p[decides];
      let y = HEIGHT - BOTTOM;
      const parts = [["decides", p[decides]], ["list", list], ["others", p[rules]]].map(([kind, share]) => {
        y -= this.height(share);
        return element("rect", { x: LEFT + step * (at + 0.15), y, width: 0.7 * step, height: this.height(share), fill: COLOURS[kind] });
      });
      const occur = counts[at].slice(0, rules).map((count, place) => (count ? place + 1 : "")).filter(String).join(" ");
      const middle = { x: LEFT + step * (at + 0.5), "text-anchor": "middle" };
      const share = `${(100 * masses[at]).toPrecision(2)} %`;
      if (counts.length > 8) return parts; // no room for words
      return [...parts, element("text", { ...middle, y: HEIGHT - BOTTOM + 16 }, occur), element("text", { ...middle, y: HEIGHT - BOTTOM + 32 }, share)];
    }

    tell(at) {
      const { length } = this.given;
      const mean = this.means(this.flow)[at];
      this.rows.replaceChildren(
        this.row("order of scores (o: all others)", this.flow.orders[at]),
        this.row("accuracy", `${(100 * this.flow.accuracy[at]).toFixed(1)} %`),
        this.row("mean attention on the deciding token", mean.toFixed(4)),
        this.row("uniform attention would pay", (1 / length).toFixed(4)),
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
    for (const root of document.querySelectorAll(".lists.movable")) new Figure(root);
  });
})();
