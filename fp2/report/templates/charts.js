"use strict";
// Draws charts with Observable Plot, as SVG whose colours and lines are those of the page's style. A figure with
// data-chart holds as JSON what its chart shows (fp2/report/charts.py).
const drawChart = (function () {
  // Plot gives marks no classes: a description that begins with @ becomes them.
  const mark = (kind, data, classes, options) => kind(data, { ...options, ariaDescription: `@${classes}` });
  const fill = { value: (one) => (one.filled ? "var(--run)" : "var(--paper)"), scale: null };

  function radar(spec) {
    const width = 560, height = 400, radius = 150, x = width / 2, y = height / 2;
    const angle = (place) => (2 * Math.PI * place) / spec.labels.length;
    const at = (place, value) => {
      const far = Math.min(value / spec.end, 1.05) * radius;
      return { x: x + far * Math.sin(angle(place)), y: y - far * Math.cos(angle(place)) };
    };
    const xy = { x: "x", y: "y" }, closed = { ...xy, curve: "linear-closed" };
    const marks = [
      mark(Plot.dot, spec.rings, "grid", { x, y, r: (ring) => (radius * ring) / spec.end }),
      mark(Plot.link, spec.labels.map((_, place) => at(place, spec.end)), "grid", { x1: x, y1: y, x2: "x", y2: "y" }),
      mark(Plot.line, spec.null_p95.map((value, place) => at(place, value)), "chance", closed),
      mark(Plot.line, spec.null_mean.map((value, place) => at(place, value)), "chance-mean", closed),
    ];
    spec.labels.forEach((label, place) => {
      const across = Math.sin(angle(place)), up = Math.cos(angle(place));
      const textAnchor = Math.abs(across) < 0.1 ? "middle" : across > 0 ? "start" : "end";
      const lineAnchor = Math.abs(up) < 0.6 ? "middle" : up > 0 ? "bottom" : "top";
      const lines = { lineWidth: textAnchor === "middle" ? 20 : 8, lineHeight: 1.25, fontSize: 15 };
      const where = { ...xy, textAnchor, lineAnchor, dx: 12 * across, dy: -8 * up };
      marks.push(mark(Plot.text, [at(place, spec.end)], "label", { ...where, ...lines, text: [label] }));
    });
    for (const one of spec.series) {
      const points = one.values.map((value, place) => value === null ? null :
        { ...at(place, value), filled: one.filled[place], title: one.titles[place] });
      // beside a missing point the line has a gap
      const pairs = points.map((from, place) => [from, points[(place + 1) % points.length]]).filter(([a, b]) => a && b);
      const ends = { x1: (pair) => pair[0].x, y1: (pair) => pair[0].y, x2: (pair) => pair[1].x, y2: (pair) => pair[1].y };
      if (!one.style && pairs.length === points.length) marks.push(mark(Plot.line, points, "area", closed));
      marks.push(mark(Plot.link, pairs, `line ${one.style}`, ends));
      marks.push(mark(Plot.dot, points.filter(Boolean), `point ${one.style}`, { ...xy, r: 5, fill, title: "title" }));
    }
    const ring = { x: (one) => x + (radius * one) / spec.end / 2 + 4, y: (one) => y - (0.866 * radius * one) / spec.end - 3 };
    marks.push(mark(Plot.text, spec.rings, "ring", { ...ring, text: String, textAnchor: "start", lineAnchor: "bottom" }));
    const identity = { type: "identity" };
    return { width, height, margin: 0, axis: null, x: identity, y: identity, r: identity, marks };
  }

  // Rows below each other with their labels, on an axis from 0; `y` is the place of a row, since two labels can be equal.
  function rows(spec, width, end, marks) {
    const marginLeft = Math.min(210, Math.round(width * 0.36)), places = spec.rows.map((_, place) => place);
    const ticks = Math.max(3, Math.round(width / 110)), unit = { label: spec.unit, labelAnchor: "center", labelArrow: "none", labelOffset: 38 };
    const labels = { label: null, tickSize: 0, tickFormat: (place) => spec.rows[place].label, lineWidth: (marginLeft - 12) / 13 };
    const lines = Math.max(...spec.rows.map((one) => Math.ceil(one.label.length / (1.5 * labels.lineWidth))));
    const height = 48 + Math.max(30, 4 + 14 * lines) * spec.rows.length;
    return {
      width, height, marginLeft, marginRight: 24, marginTop: 4, marginBottom: 44,
      x: { domain: [0, end], nice: true },
      y: { type: "band", domain: places, padding: 0.3 },
      marks: [
        mark(Plot.gridX, undefined, "grid", { ticks }),
        mark(Plot.axisX, undefined, "axis", { ...unit, ticks, tickSize: 0 }),
        mark(Plot.axisY, undefined, "axis", labels), ...marks,
      ],
    };
  }

  function intervals(spec, width) {
    const y = (_, place) => place;
    return rows(spec, width, spec.end, [
      mark(Plot.barX, spec.rows, "chance", { y, x1: () => 0, x2: "null_p95" }),
      mark(Plot.tickX, spec.rows, "tick", { y, x: "null_mean" }),
      mark(Plot.ruleY, spec.rows, "interval", { y, x1: "low", x2: "high" }),
      mark(Plot.dot, spec.rows, "point", { y, x: "value", r: 4.5, fill, title: "title" }),
    ]);
  }

  function bars(spec, width) {
    const y = (_, place) => place, styles = Array.from(new Set(spec.rows.map((one) => one.style)));
    return rows(spec, width, Math.max(...spec.rows.map((one) => one.value)), styles.map((style) =>
      mark(Plot.barX, spec.rows, `bar ${style}`, {
        y, x: "value", fill, title: "title", filter: (one) => one.style === style,
      })));
  }

  const kinds = { radar, intervals, bars };
  // Draws the chart of a figure at a width in pixels, without the runs that are hidden.
  return function (figure, width, hidden) {
    const spec = JSON.parse(figure.dataset.chart);
    if (spec.series) spec.series = spec.series.filter((one) => !hidden.has(one.run));
    const svg = Plot.plot({ className: "chart", ...kinds[spec.kind](spec, width) });
    svg.querySelector("style").remove(); // the page's style has what is needed, and its policy admits no other
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", spec.name);
    for (const group of svg.querySelectorAll('[aria-description^="@"]')) {
      group.setAttribute("class", group.getAttribute("aria-description").slice(1));
      group.removeAttribute("aria-description");
    }
    for (const group of svg.querySelectorAll("g[aria-label]")) group.removeAttribute("aria-label"); // a group has no role
    figure.querySelector(".drawing").replaceChildren(svg);
  };
})();
