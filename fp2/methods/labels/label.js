// A key presses the button that names it; no key is taken with a modifier, or while a button was pressed already.
"use strict";
let sent = false;
for (const form of document.forms) form.addEventListener("submit", () => { sent = true; });
document.addEventListener("keydown", (event) => {
  if (sent || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  const button = document.querySelector(`button[data-key="${CSS.escape(event.key.toLowerCase())}"]:enabled`);
  if (button) { event.preventDefault(); button.click(); }
});
