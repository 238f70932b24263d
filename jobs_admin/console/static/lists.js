// Lists of jobs: select rows, and complete the words of the filter. Both work with the keyboard.

const main = document.getElementById("main");

// ---- Selection. Without this module, the checkboxes and buttons of the form still work.

const form = () => document.getElementById("selection");
const boxes = () => [...main.querySelectorAll('input[name="job"]')];

function showSelection() {
  const shown = document.getElementById("selected");
  if (!shown) return;
  const all = document.getElementById("select-matching").checked;
  const chosen = boxes().filter((box) => box.checked).length;
  const count = all ? Number(form().dataset.matching) : chosen;
  shown.textContent = count === 0 ? "Select jobs to change them." : `${count.toLocaleString("en")} selected`;
  for (const button of form().querySelectorAll('button[name="verb"]')) button.disabled = count === 0;
  const page = document.getElementById("select-page");
  page.checked = chosen > 0 && chosen === boxes().length;
  page.indeterminate = chosen > 0 && chosen < boxes().length;
  // A selection must not change while its user works on it; without one the page updates again.
  form().toggleAttribute("data-dirty", count > 0);
}

main.addEventListener("change", (event) => {
  if (event.target.id === "select-page") {
    for (const box of boxes()) box.checked = event.target.checked;
  }
  if (event.target.closest("#selection")) showSelection();
});
main.addEventListener("updated", showSelection);
window.addEventListener("pageshow", showSelection);
showSelection();

// ---- Completion of the word at the cursor.

let wanted = 0;

function listFor(input) {
  let list = document.getElementById("suggestions");
  if (!list) {
    list = document.createElement("ul");
    list.id = "suggestions";
    list.className = "suggestions";
    list.role = "listbox";
    list.ariaLabel = "Completions";
    input.after(list);
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-controls", "suggestions");
    input.setAttribute("aria-autocomplete", "list");
  }
  return list;
}

function close(input) {
  wanted += 1;
  document.getElementById("suggestions")?.remove();
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}

async function suggest(input) {
  const mine = ++wanted;
  const before = input.value.slice(0, input.selectionStart);
  const address = `${input.dataset.suggest}?q=${encodeURIComponent(before)}`;
  const response = await fetch(address, { headers: { Accept: "application/json" } });
  if (mine !== wanted || !response.ok || document.activeElement !== input) return;
  const found = await response.json();
  if (found.length === 0) {
    close(input);
    return;
  }
  const list = listFor(input);
  list.replaceChildren(
    ...found.map((text, index) => {
      const item = document.createElement("li");
      item.id = `suggestion-${index}`;
      item.role = "option";
      item.textContent = text;
      return item;
    }),
  );
  input.setAttribute("aria-expanded", "true");
}

function choose(input, item) {
  const at = input.selectionStart;
  const begin = input.value.slice(0, at).search(/(?:[^\s"]|"(?:[^"\\]|\\.)*(?:"|$))*$/);
  const isField = /[:.]$/.test(item.textContent);
  const text = item.textContent + (isField ? "" : " ");
  input.value = input.value.slice(0, begin) + text + input.value.slice(at).trimStart();
  input.setSelectionRange(begin + text.length, begin + text.length);
  close(input);
  if (isField) suggest(input);
}

function move(input, step) {
  const items = [...document.querySelectorAll("#suggestions li")];
  const at = items.findIndex((item) => item.ariaSelected === "true");
  const next = items[(at + step + items.length + (at < 0 && step < 0 ? 1 : 0)) % items.length];
  for (const item of items) item.ariaSelected = String(item === next);
  next.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", next.id);
}

// The page must not update while its user writes a filter, also not by a read that is under way.
function holdUpdates() {
  const input = document.activeElement;
  if (input?.matches("[data-suggest]")) input.form.setAttribute("data-dirty", "");
}
main.addEventListener("focusin", holdUpdates);
main.addEventListener("updated", holdUpdates);

main.addEventListener("input", (event) => {
  if (event.target.matches("[data-suggest]")) suggest(event.target);
});
main.addEventListener("focusout", (event) => {
  const input = event.target;
  if (!input.matches("[data-suggest]")) return;
  close(input);
  if (input.value === input.defaultValue) input.form.removeAttribute("data-dirty");
});
main.addEventListener("mousedown", (event) => {
  const item = event.target.closest("#suggestions li");
  if (!item) return;
  event.preventDefault();
  choose(main.querySelector("[data-suggest]"), item);
});
main.addEventListener("keydown", (event) => {
  const input = event.target;
  if (!input.matches("[data-suggest]")) return;
  const isOpen = document.getElementById("suggestions") !== null;
  if (event.key === "ArrowDown" && !isOpen) suggest(input);
  else if (isOpen && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    move(input, event.key === "ArrowDown" ? 1 : -1);
  } else if (isOpen && event.key === "Escape") close(input);
  else if (isOpen && (event.key === "Enter" || event.key === "Tab")) {
    const item = document.querySelector('#suggestions li[aria-selected="true"]');
    if (!item) return;
    choose(input, item);
  } else return;
  event.preventDefault();
});
