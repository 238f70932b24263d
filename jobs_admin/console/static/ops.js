// One dialog serves all rows of a table: the button that opens it says about which row it is.
// data-set-NAME fills the field of this name, and every element with data-show="NAME".

document.addEventListener(
  "click",
  (event) => {
    const opener = event.target.closest("[data-dialog]");
    const dialog = opener && document.getElementById(opener.dataset.dialog);
    if (!dialog) return;
    for (const { name, value } of opener.attributes) {
      if (!name.startsWith("data-set-")) continue;
      const field = name.slice("data-set-".length);
      const input = dialog.querySelector(`input[name="${CSS.escape(field)}"]`);
      if (input) input.value = value;
      for (const shown of dialog.querySelectorAll(`[data-show="${CSS.escape(field)}"]`)) {
        shown.textContent = value;
      }
    }
  },
  true,
);
