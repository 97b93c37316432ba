"use strict";
// Draws charts with Observable Plot, as SVG whose colours and lines are those of the page's style; a heat map is a table.
// A figure with data-chart holds as JSON what its chart shows (fp2/report/plots.py).
const drawChart = (function () {
  // Plot gives marks no classes: a description that begins with @ becomes them.
  const mark = (kind, data, classes, options) => kind(data, { ...options, ariaDescription: `@${classes}` });
  const fill = { value: (one) => (one.open ? "var(--paper)" : "var(--run)"), scale: null };
  const known = (value) => value !== undefined && value !== null;
  const all = (spec) => spec.series.flatMap((one) => one.points);

  // A label in lines of so many letters (of wide scripts half as many), cut off where there are too many.
  function wrapped(text, letters, most) {
    const wide = (char) => (char.codePointAt(0) > 0x2e7f ? 2 : 1), lines = [];
    let line = "", size = 0;
    const end = () => { if (line) lines.push(line.trim()); line = ""; size = 0; };
    for (const word of text.split(/(?<=[\s\-/])/)) {
      const chars = Array.from(word), long = chars.reduce((sum, char) => sum + wide(char), 0);
      if (size + word.trim().length > letters || size + long > letters + 1) end();
      for (const char of chars) {
        if (size + wide(char) > letters && char.trim()) end();
        line += char;
        size += wide(char);
      }
    }
    end();
    if (lines.length > most) {
      const rest = Array.from(lines.splice(most - 1).join(" "));
      while (rest.reduce((sum, char) => sum + wide(char), 0) > letters - 1) rest.pop();
      lines.push(`${rest.join("").trimEnd()}…`);
    }
    return lines.join("\n");
  }

  // The ends of an axis: those it states, or such that all values are within; `zero` is one of them.
  function ends(axis, values, zero) {
    const some = values.filter((value) => known(value) && isFinite(value)).concat(zero ? [0] : []);
    const low = some.length ? Math.min(...some) : 0, high = some.length ? Math.max(...some) : 1;
    const margin = 0.05 * (high - low) || 0.5 * (Math.abs(high) || 1);
    return [axis.low ?? (zero && low === 0 ? 0 : low - margin), axis.high ?? (zero && high === 0 ? 0 : high + margin)];
  }
  const centred = { labelAnchor: "center", labelArrow: "none" };

  function radar(spec, width) {
    const tight = width < 480, many = spec.labels.length > 12;
    width = Math.min(width, 560);
    const longest = Math.max(...spec.labels.map((label) => label.length));
    const radius = Math.min(150, width / 2 - (many ? 88 : Math.min(100, 22 + 8 * longest))), height = 2 * radius + (many ? (tight ? 180 : 240) : 88), x = width / 2, y = height / 2;
    const small = radius < 70;
    const angle = (row) => (2 * Math.PI * row) / spec.labels.length;
    const at = (row, value) => {
      const far = Math.min(value / spec.end, 1.05) * radius;
      return { x: x + far * Math.sin(angle(row)), y: y - far * Math.cos(angle(row)) };
    };
    const largest = (key) => spec.labels.map((_, row) =>
      Math.max(0, ...all(spec).filter((one) => one.row === row && known(one[key])).map((one) => one[key])));
    const xy = { x: "x", y: "y" }, closed = { ...xy, curve: "linear-closed" };
    const ring = { x: (one) => x + (radius * one) / spec.end / 2 + 4, y: (one) => y - (0.866 * radius * one) / spec.end - 3 };
    const marks = [
      mark(Plot.dot, spec.rings, "grid", { x, y, r: (one) => (radius * one) / spec.end }),
      mark(Plot.link, spec.labels.map((_, row) => at(row, spec.end)), "grid", { x1: x, y1: y, x2: "x", y2: "y" }),
      mark(Plot.line, largest("null_p95").map((value, row) => at(row, value)), "chance", closed),
      mark(Plot.line, largest("null_mean").map((value, row) => at(row, value)), "chance-mean", closed),
      ...spec.references.map((one) => mark(Plot.dot, [one.value], "reference", { x, y, r: (radius * one.value) / spec.end })),
    ];
    spec.labels.forEach((label, row) => {
      const across = Math.sin(angle(row)), up = Math.cos(angle(row));
      const textAnchor = Math.abs(across) < 0.1 ? "middle" : across > 0 ? "start" : "end";
      const lineAnchor = Math.abs(up) < 0.6 ? "middle" : up > 0 ? "bottom" : "top";
      if (many) { // turned along the spoke
        const left = angle(row) > Math.PI, rotate = (angle(row) * 180) / Math.PI - 90 + 180 * left, where = at(row, 1.03 * spec.end);
        marks.push(mark(Plot.text, [where], "label small", { ...xy, text: [wrapped(label, tight ? 11 : 16, 1)], rotate, textAnchor: left ? "end" : "start" }));
        return;
      }
      const text = wrapped(label, textAnchor === "middle" ? 24 : tight ? 13 : 15, 3);
      const where = { ...xy, textAnchor, lineAnchor, dx: (tight ? 7 : 12) * across, dy: -8 * up, lineHeight: 1.2 };
      marks.push(mark(Plot.text, [at(row, spec.end)], tight ? "label small" : "label", { ...where, text: [text] }));
    });
    for (const one of spec.series) {
      const points = spec.labels.map(() => null);
      for (const point of one.points) if (known(point.value)) points[point.row] = { ...at(point.row, point.value), ...pick(point) };
      // beside a missing point the line has a gap
      const pairs = points.map((from, row) => [from, points[(row + 1) % points.length]]).filter(([a, b]) => a && b);
      const links = { x1: (pair) => pair[0].x, y1: (pair) => pair[0].y, x2: (pair) => pair[1].x, y2: (pair) => pair[1].y };
      if (!one.style && pairs.length === points.length) marks.push(mark(Plot.line, points, "area", closed));
      marks.push(mark(Plot.link, pairs, `line ${one.style}`, links));
      marks.push(mark(Plot.dot, points.filter(Boolean), `point ${one.style}`, { ...xy, r: small ? 3 : 5, fill, title: "title" }));
    }
    const named = small ? spec.rings.slice(-1) : spec.rings.slice(0, many ? -1 : undefined);
    marks.push(mark(Plot.text, named, "ring", { ...ring, text: String, textAnchor: "start", lineAnchor: "bottom" }));
    const identity = { type: "identity" };
    return { width, height, margin: 0, axis: null, x: identity, y: identity, r: identity, marks };
  }
  const pick = (point) => ({ open: point.open, title: point.title });

  // Labelled rows below each other; in a row the series lie side by side. Places are pixels: two labels can be equal.
  function rows(spec, width, domain, draw) {
    const used = spec.labels.map((_, row) => all(spec).some((one) => one.row === row)); // rows of hidden runs are left out
    const order = spec.labels.map((_, row) => used.slice(0, row).filter(Boolean).length);
    const shared = spec.series.some((one, place) => spec.series.some((other, before) =>
      before < place && other.points.some((point) => one.points.some((mine) => mine.row === point.row))));
    const n = shared ? spec.series.length : 1, marginTop = 4, marginBottom = spec.value.label ? 44 : 26;
    const longest = Math.max(0, ...spec.labels.map((label) => Array.from(label).length));
    const marginLeft = Math.min(Math.round(width * 0.38), 230, 16 + 8 * longest);
    const labels = spec.labels.map((label) => wrapped(label, Math.floor((marginLeft - 10) / 8), marginLeft < 160 ? 5 : 4));
    const tallest = Math.max(1, ...labels.map((label) => label.split("\n").length));
    const tall = Math.max(30, 6 + 16 * tallest, 14 * n + 8);
    const middle = (row) => marginTop + tall * (order[row] + 0.5);
    const step = Math.min(14, (tall - 8) / n);
    const y = (row, place) => middle(row) + (shared ? (place - (n - 1) / 2) * step : 0);
    const half = Math.min(9, shared ? step / 2 - 1 : 9);
    const across = (one) => (known(one.high) ? { x1: one.value, x2: one.high } : { x: one.value });
    const ticks = Math.max(3, Math.round(width / 110));
    return {
      width, height: marginTop + tall * used.filter(Boolean).length + marginBottom,
      marginLeft, marginRight: 24, marginTop, marginBottom,
      x: { domain }, y: { type: "identity", axis: null },
      marks: [
        mark(Plot.gridX, undefined, "grid", { ticks }),
        ...spec.references.map((one) => mark(known(one.high) ? Plot.rectX : Plot.ruleX, [one], known(one.high) ? "band" : "reference", across(one))),
        mark(Plot.axisX, undefined, "axis", { ...centred, label: spec.value.label || null, labelOffset: 38, ticks, tickSize: 0 }),
        mark(Plot.text, spec.labels.map((_, row) => row).filter((row) => used[row]), "label small",
          { frameAnchor: "left", textAnchor: "end", dx: -10, y: middle, text: (row) => labels[row], href: (row) => spec.links[row], lineHeight: 1.15 }),
        ...draw(y, half),
      ],
    };
  }

  function chance(points, y1, y2) {
    return [
      mark(Plot.rect, points.filter((one) => known(one.null_p95)), "chance", { y1, y2, x1: () => 0, x2: "null_p95" }),
      mark(Plot.ruleX, points.filter((one) => known(one.null_mean)), "tick", { y1, y2, x: "null_mean" }),
    ];
  }

  function intervals(spec, width) {
    const points = all(spec), zero = points.some((one) => known(one.null_p95));
    const values = points.flatMap((one) => [one.value, one.low, one.high, one.null_p95]);
    return rows(spec, width, ends(spec.value, values.concat(spec.references.map((one) => one.value)), zero), (at, half) =>
      spec.series.flatMap((series, place) => {
        const shown = series.points.filter((one) => known(one.value)), y = (one) => at(one.row, place);
        return [
          ...chance(shown, (one) => y(one) - half, (one) => y(one) + half),
          mark(Plot.ruleY, shown.filter((one) => known(one.low) && known(one.high)), `interval ${series.style}`, { y, x1: "low", x2: "high" }),
          mark(Plot.dot, shown, `point ${series.style}`, { y, x: "value", r: 4.5, fill, title: "title" }),
        ];
      }));
  }

  function bars(spec, width) {
    const values = all(spec).flatMap((one) => [one.value, one.low, one.high, one.null_p95]);
    return rows(spec, width, ends(spec.value, values, true), (at, half) =>
      spec.series.flatMap((series, place) => {
        const shown = series.points.filter((one) => known(one.value)), y = (one) => at(one.row, place);
        const y1 = (one) => y(one) - half, y2 = (one) => y(one) + half;
        return [
          mark(Plot.rect, shown, `bar ${series.style}`, { y1, y2, x1: () => 0, x2: "value", fill, title: "title" }),
          ...chance(shown, (one) => y(one) - half / 2, (one) => y(one) + half / 2),
          mark(Plot.ruleY, shown.filter((one) => known(one.low) && known(one.high)), "whisker", { y, x1: "low", x2: "high" }),
        ];
      }));
  }

  // y over x.
  function plane(spec, width, xs, values, marks) {
    const marginLeft = 56, height = Math.round(Math.max(220, Math.min(360, 0.6 * width)));
    const most = Math.max(3, Math.round(width / 110)), at = [...new Set(all(spec).map((one) => one.x))];
    const counts = at.length <= most && at.every(Number.isInteger) ? { ticks: at, tickFormat: String } : { ticks: most };
    return {
      width, height, marginLeft, marginRight: 20, marginTop: spec.value.label ? 26 : 10, marginBottom: spec.x.label ? 44 : 28,
      x: { domain: xs }, y: { domain: values },
      marks: [
        mark(Plot.gridY, undefined, "grid", { ticks: 5 }),
        mark(Plot.axisX, undefined, "axis", { ...centred, label: spec.x.label || null, labelOffset: 38, ...counts, tickSize: 0 }),
        mark(Plot.axisY, undefined, "axis", { labelArrow: "none", label: spec.value.label || null, labelOffset: marginLeft, ticks: 5, tickSize: 0 }),
        ...marks,
      ],
    };
  }
  const onValues = (spec) => spec.references.map((one) => known(one.high)
    ? mark(Plot.rectY, [one], "band", { y1: "value", y2: "high" }) : mark(Plot.ruleY, [one], "reference", { y: "value" }));

  function lines(spec, width) {
    const points = all(spec), values = points.flatMap((one) => [one.value, one.low, one.high, one.null_p95]);
    const some = values.concat(spec.references.map((one) => one.value));
    const dots = spec.series.some((one) => one.points.length > 24) ? 2.5 : 4;
    return plane(spec, width, ends(spec.x, points.map((one) => one.x)), ends(spec.value, some), [
      ...onValues(spec),
      ...spec.series.flatMap((series) => {
        const own = series.points.filter((one) => known(one.x)), shown = own.filter((one) => known(one.value));
        const y = (key) => (one) => one[key] ?? NaN; // a missing value is a gap
        return [
          mark(Plot.areaY, own, "chance", { x: "x", y1: 0, y2: y("null_p95") }),
          mark(Plot.lineY, own, "chance-mean", { x: "x", y: y("null_mean") }),
          mark(Plot.areaY, own, `spread ${series.style}`, { x: "x", y1: y("low"), y2: y("high") }),
          mark(Plot.lineY, own, `line ${series.style}`, { x: "x", y: y("value") }),
          mark(Plot.dot, shown, `point ${series.style}`, { x: "x", y: "value", r: dots, fill, title: "title" }),
        ];
      }),
    ]);
  }

  function points(spec, width) {
    const some = all(spec), values = some.flatMap((one) => [one.value, one.low, one.high]).concat(spec.references.map((one) => one.value));
    return plane(spec, width, ends(spec.x, some.map((one) => one.x)), ends(spec.value, values), [
      ...onValues(spec),
      ...spec.series.flatMap((series) => {
        const shown = series.points.filter((one) => known(one.x) && known(one.value));
        return [
          mark(Plot.ruleX, shown.filter((one) => known(one.low) && known(one.high)), `interval ${series.style}`, { x: "x", y1: "low", y2: "high" }),
          mark(Plot.dot, shown, `point ${series.style}`, { x: "x", y: "value", r: 4.5, fill, title: "title" }),
        ];
      }),
    ]);
  }

  function histogram(spec, width) {
    const some = all(spec), xs = some.flatMap((one) => [one.low, one.high]).concat(spec.references.map((one) => one.value));
    const several = spec.series.length > 1 ? " several" : "";
    return plane(spec, width, ends(spec.x, xs), ends(spec.value, some.map((one) => one.value), true), [
      ...spec.series.map((series) => mark(Plot.rect, series.points.filter((one) => known(one.value)), `column ${series.style}${several}`,
        { x1: "low", x2: "high", y1: () => 0, y2: "value", insetLeft: 0.5, insetRight: 0.5, title: "title" })),
      ...spec.references.map((one) => known(one.high)
        ? mark(Plot.rectX, [one], "band", { x1: "value", x2: "high" }) : mark(Plot.ruleX, [one], "reference", { x: "value" })),
    ]);
  }

  const element = (name, classes, text) => Object.assign(document.createElement(name), { className: classes || "", textContent: text || "" });

  // A table with the colours of the page's other tables of means.
  function heat(spec) {
    const scroll = element("div", "scroll"), table = element("table", "heat"), head = table.createTHead().insertRow();
    const heading = (row, text, scope) => { const cell = element("th", "", text); cell.scope = scope; row.append(cell); };
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", spec.name);
    head.append(element("td"));
    for (const label of spec.labels) heading(head, label, "col");
    const body = table.createTBody();
    for (const series of spec.series) {
      const row = body.insertRow(), cells = new Map(series.points.map((one) => [one.row, one]));
      heading(row, series.name || "", "row");
      spec.labels.forEach((_, column) => {
        const one = cells.get(column) || { text: "–", level: "none", mark: "", title: "" };
        const cell = element("td", `cell ${one.level}`, one.text);
        const [sign, said] = { low: [" ▼", "lower"], high: [" ▲", "higher"], significant: ["*", "significant"] }[one.mark] || [];
        if (sign) cell.append(sign, element("span", "hide", said));
        if (one.title) cell.title = one.title;
        row.append(cell);
      });
    }
    scroll.append(table);
    return scroll;
  }

  // What colours and reference lines are; pages of several runs say it of runs where these are chosen.
  function legend(spec, chart) {
    const list = element("p", "legend"), entry = (classes, label) => {
      const [svg, line] = ["svg", "line"].map((name) => document.createElementNS(chart.namespaceURI, name));
      for (const [key, value] of Object.entries({ viewBox: "0 0 28 10", width: 28, height: 10, "aria-hidden": "true", class: "swatch" })) svg.setAttribute(key, value);
      for (const [key, value] of Object.entries({ x1: 1, y1: 5, x2: 27, y2: 5, class: classes })) line.setAttribute(key, value);
      const span = element("span");
      svg.append(line);
      span.append(svg, " ", element("bdi", "", label));
      list.append(span, " ");
    };
    if (spec.series.length > 1 && !document.querySelector('input[name="run"]')) {
      for (const one of spec.series) if (one.name) entry(`line ${one.style}`, one.name);
    }
    for (const one of spec.references) if (one.label) entry(known(one.high) ? "band" : "reference", one.label);
    return list.childNodes.length ? [list] : [];
  }

  const kinds = { radar, intervals, bars, lines, points, histogram };
  // Draws the chart of a figure at a width in pixels, without the runs that are hidden.
  return function (figure, width, hidden) {
    const given = JSON.parse(figure.dataset.chart), drawing = figure.querySelector(".drawing");
    const spec = { value: {}, x: {}, labels: [], links: {}, references: [], series: [], ...given };
    spec.series = spec.series.filter((one) => !hidden.has(one.run));
    for (const one of spec.series) {
      one.style ??= "";
      one.points.forEach((point, place) => { point.row ??= place; });
    }
    if (spec.kind === "heat") {
      drawing.replaceChildren(heat(spec));
      return;
    }
    const svg = Plot.plot({ className: "chart", ...kinds[spec.kind](spec, width) });
    svg.querySelector("style").remove(); // the page's style has what is needed, and its policy admits no other
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", spec.name);
    for (const group of svg.querySelectorAll('[aria-description^="@"]')) {
      group.setAttribute("class", group.getAttribute("aria-description").slice(1));
      group.removeAttribute("aria-description");
    }
    for (const group of svg.querySelectorAll("g[aria-label]")) group.removeAttribute("aria-label"); // a group has no role
    drawing.replaceChildren(svg, ...legend(spec, svg));
  };
})();
