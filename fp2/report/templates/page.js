// Everything is in the page already: this shows one cut and one score at a time, has charts drawn, hides lines of runs,
// sorts tables, and shows what a mark or a cell says.
(function () {
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const nav = document.getElementById("switches");
  const scorer = document.getElementById("scorer");
  const none = document.querySelector(".none-here");
  const radios = all('input[name="cut"]', nav);

  function show() {
    const cut = (radios.find((radio) => radio.checked) || {}).value;
    if (none) none.hidden = all("[data-cut][data-scorer]").some((e) => e.dataset.cut === cut && e.dataset.scorer === scorer.value);
    for (const element of all("[data-cut]")) {
      const wanted = element.dataset.cut === cut;
      const other = "scorer" in element.dataset && element.dataset.scorer !== scorer.value;
      element.hidden = !wanted || other;
      element.classList.toggle("other-score", other);
    }
  }
  if (radios.length) {
    nav.hidden = false;
    radios.forEach((radio) => radio.addEventListener("change", show));
    scorer.addEventListener("change", show);
    show();
  }

  // The titles of marks and cells as a tooltip: at the pointer or finger, and with the keyboard, where a drawing or table
  // is one stop and arrow keys go on from there. Escape hides it; the pointer can be moved onto it.
  const tip = Object.assign(document.createElement("div"), { className: "tip", id: "tip", hidden: true });
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);
  let shown = null, leaving = 0;
  function hide() {
    if (shown) shown.removeAttribute("aria-describedby");
    shown = null;
    tip.hidden = true;
  }
  function tell(mark) {
    clearTimeout(leaving);
    if (mark === shown) return;
    hide();
    shown = mark;
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    if (!mark.ariaLabel) mark.setAttribute("aria-describedby", "tip");
    const box = mark.getBoundingClientRect(), widest = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const above = box.top - tip.offsetHeight - 6;
    tip.style.left = `${scrollX + Math.max(8, Math.min(box.left + (box.width - tip.offsetWidth) / 2, widest))}px`;
    tip.style.top = `${scrollY + (above > 0 ? above : box.bottom + 6)}px`;
  }
  const leave = () => { clearTimeout(leaving); leaving = setTimeout(hide, 250); };
  const marks = (group) => all("[data-tip]", group);
  function stop(group, wanted) {
    const found = marks(group), one = wanted || found.find((mark) => mark.tabIndex === 0) || found[0];
    for (const mark of all("[data-tip]", group)) mark.tabIndex = mark === one ? 0 : -1;
  }
  function nearest(group, event) {
    const under = event.target.closest("[data-tip]");
    if (under || group.localName === "table") return under;
    const far = (mark) => {
      const box = mark.getBoundingClientRect();
      return Math.hypot(box.x + box.width / 2 - event.clientX, box.y + box.height / 2 - event.clientY);
    };
    const [distance, mark] = marks(group).map((one) => [far(one), one]).sort((a, b) => a[0] - b[0])[0] || [];
    return distance < 22 ? mark : null;
  }
  function next(group, mark, key) {
    const found = marks(group), place = found.indexOf(mark);
    if (key === "Home" || key === "End") return found.at(key === "Home" ? 0 : -1);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
    if (!step) return null;
    if (group.localName !== "table" || key === "ArrowRight" || key === "ArrowLeft") return found[place + step];
    const column = found.filter((one) => one.cellIndex === mark.cellIndex);
    return column[column.indexOf(mark) + step];
  }
  function describe(root) {
    const groups = new Set();
    for (const mark of all("svg :has(> title), td[title]", root)) {
      const title = mark.querySelector("title");
      mark.dataset.tip = title ? title.textContent : mark.title;
      if (title) {
        title.remove();
        mark.setAttribute("role", "img");
        mark.ariaLabel = mark.dataset.tip;
      }
      mark.removeAttribute("title");
      groups.add(mark.closest("svg, table"));
    }
    for (const group of groups) {
      stop(group);
      const point = (event) => { const mark = nearest(group, event); if (mark) tell(mark); else leave(); };
      group.addEventListener("pointermove", point);
      group.addEventListener("pointerdown", point);
      group.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") leave(); });
      group.addEventListener("focusin", (event) => { if (event.target.dataset.tip) tell(event.target); });
      group.addEventListener("focusout", hide);
      group.addEventListener("keydown", (event) => {
        const wanted = event.target.dataset.tip && next(group, event.target, event.key);
        if (!wanted) return;
        event.preventDefault();
        stop(group, wanted);
        wanted.focus();
      });
    }
  }
  tip.addEventListener("pointerenter", () => clearTimeout(leaving));
  tip.addEventListener("pointerleave", leave);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest("[data-tip], svg, .tip")) hide(); });

  describe(document);

  // A chart is drawn when its figure is first visible and when its width changes; on paper all are.
  const hidden = new Set(), charts = all("[data-chart]"), widths = new Map();
  function draw(figure, width) {
    if (width === 0 || widths.get(figure) === width) return;
    widths.set(figure, width);
    hide();
    drawChart(figure, width, hidden);
    describe(figure);
    for (const words of all("text:not(a text)", figure)) words.ariaHidden = "true"; // the marks say it, with their values
  }
  const look = (figure) => { if (figure.checkVisibility()) draw(figure, figure.clientWidth); };
  const seen = new ResizeObserver((changed) => changed.forEach((one) => look(one.target)));
  for (const figure of charts) {
    look(figure);
    seen.observe(figure);
  }
  document.addEventListener("toggle", (event) => all("[data-chart]", event.target).forEach(look), true);
  addEventListener("beforeprint", () => { for (const figure of charts) if (!widths.has(figure)) draw(figure, figure.closest(".beside") ? 250 : 640); });
  for (const box of all('input[name="run"]')) {
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(Number(box.value)); else hidden.add(Number(box.value));
      widths.clear();
      for (const figure of charts) draw(figure, figure.clientWidth);
    });
  }

  const filter = document.getElementById("board-filter");
  if (filter) {
    const select = filter.querySelector("select");
    filter.hidden = false;
    select.addEventListener("change", () => {
      for (const row of all("[data-board-cut]")) row.hidden = select.value !== "" && row.dataset.boardCut !== select.value;
    });
  }

  // Paper has no switches: it has what is folded, and all cuts of the score that is chosen; not the tables that are long.
  addEventListener("beforeprint", () => {
    const absent = all(".on-screen").map((one) => one.querySelector("summary, h2").textContent.trim());
    if (scorer && scorer.options.length > 1) absent.unshift("other scores");
    const said = document.getElementById("unprinted");
    said.textContent = absent.length ? `Not printed: ${absent.join("; ")}. The page on a screen has them.` : "";
  });
  addEventListener("beforeprint", () => { for (const one of all("details:not([open])")) { one.open = true; one.dataset.folded = ""; } });
  addEventListener("afterprint", () => { for (const one of all("details[data-folded]")) { one.open = false; delete one.dataset.folded; } });

  // A link leads to what may be folded.
  function unfold() {
    const wanted = document.getElementById(location.hash.slice(1));
    if (!wanted) return;
    for (let one = wanted; one; one = one.parentElement) if (one.localName === "details") one.open = true;
    wanted.scrollIntoView();
    const first = wanted.querySelector("summary");
    if (first) first.focus({ preventScroll: true });
  }
  addEventListener("hashchange", unfold);
  document.addEventListener("click", (event) => { if (event.target.closest('a[*|href^="#"]')) setTimeout(unfold); }); // again to the same place
  unfold();

  // A table that goes on beyond its right edge fades out there.
  const edge = (one) => one.classList.toggle("more", one.scrollLeft + one.clientWidth < one.scrollWidth - 1);
  const sizes = new ResizeObserver((changed) => changed.forEach((one) => edge(one.target)));
  for (const one of all(".scroll")) {
    sizes.observe(one);
    one.addEventListener("scroll", () => edge(one), { passive: true });
  }

  function value(row, column) {
    const cell = row.cells[column];
    if (!("value" in cell.dataset)) {
      const text = cell.textContent.trim();
      return text !== "" && isFinite(text) ? Number(text) : text;
    }
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  }
  function compare(a, b) {
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  }
  for (const table of all("table.sortable")) {
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const keyed = Array.from(body.rows, (row) => [value(row, column), row]);
        keyed.sort((a, b) => {
          const missing = a[0] === null || b[0] === null;
          return compare(a[0], b[0]) * (down && !missing ? -1 : 1);
        });
        body.append(...keyed.map((pair) => pair[1]));
      });
    });
  }

  // The sample of answers: filtered, and shown a few at a time.
  const form = document.getElementById("sample-filter");
  if (form) {
    const step = innerWidth < 640 ? 3 : 6;
    const rows = all("#sample tbody tr");
    const more = document.getElementById("sample-more");
    const group = form.elements.group;
    let limit = step;
    // A phone shows a row as lines, each with the heading of its column.
    const names = all("#sample thead th").map((head) => head.textContent.trim());
    for (const row of rows) Array.from(row.cells).forEach((one, column) => { one.dataset.label = names[column]; });
    const cell = (row) => all("td[data-cut]", row).find((one) => !one.hidden);
    const groupOf = (row) => { const found = cell(row); return found ? found.textContent.trim() : ""; };
    function filtered() {
      const probe = form.elements.probe.value, refused = form.elements.refused.value;
      const text = form.elements.text.value.trim().toLowerCase();
      return all("#sample tbody tr").filter((row) =>
        (!probe || row.dataset.probe === probe) && (!refused || row.dataset.refused === refused) &&
        (!group.value || groupOf(row).split(", ").includes(group.value)) &&
        (!text || all("q", row).some((one) => !one.parentElement.hidden && one.textContent.toLowerCase().includes(text))));
    }
    function draw() {
      const wanted = filtered();
      const visible = new Set(wanted.slice(0, limit));
      for (const row of rows) row.hidden = !visible.has(row);
      more.hidden = wanted.length <= limit;
      document.getElementById("sample-count").textContent = `${wanted.length} of ${rows.length} answers match; ${visible.size} are shown.`;
    }
    function groups() {
      const names = new Set(rows.flatMap((row) => groupOf(row).split(", ")).filter((name) => name && name !== "–"));
      group.replaceChildren(new Option("all", ""), ...Array.from(names).sort().map((name) => new Option(name, name)));
      again();
    }
    const sides = all('select[name="side"]', form);
    function again() {
      limit = step;
      if (sides.length) {
        const wanted = sides.map((side) => side.value);
        for (const one of all("#sample [data-answer]")) one.hidden = !wanted.includes(one.dataset.answer);
      }
      draw();
    }
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", again);
    radios.forEach((radio) => radio.addEventListener("change", groups));
    more.addEventListener("click", () => { limit += step; draw(); });
    document.querySelector("#sample thead").addEventListener("click", draw);
    groups();
  }
})();
