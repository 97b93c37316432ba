/* Names for what the theme leaves without one, and a place in the order of Tab for tables that are wider than the page. */
document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
const wide = new ResizeObserver(entries => {
  for (const { target } of entries) {
    const scrolls = target.scrollWidth > target.clientWidth;
    for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", "Table"]]) {
      if (scrolls) target.setAttribute(name, value);
      else target.removeAttribute(name);
    }
  }
});
addEventListener("load", () => document.querySelectorAll(".md-typeset__scrollwrap").forEach(one => wide.observe(one)));
