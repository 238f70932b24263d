// The screen of a job: the slider shows the job as of an event while it moves.
// Without this script its form and the links beside it do the same.

document.documentElement.classList.add("has-script");

let isReading = false;
let wanted = null;

function sequenceAt(range) {
  return range.dataset.sequences.split(" ")[Number(range.value) - 1];
}

async function show(address) {
  if (isReading) {
    wanted = address;
    return;
  }
  isReading = true;
  history.replaceState(null, "", address);
  try {
    await htmx.ajax("GET", address, { target: "#main", swap: "innerMorph" });
    document.getElementById("main").dispatchEvent(new CustomEvent("updated"));
  } finally {
    isReading = false;
  }
  if (wanted !== null && wanted !== address) {
    const next = wanted;
    wanted = null;
    await show(next);
  }
  wanted = null;
}

document.addEventListener("input", (event) => {
  const range = event.target;
  if (range.id !== "as-of-range") return;
  document.getElementById("as-of-number").textContent = range.value;
  const isNewest = range.value === range.max;
  range.form.removeAttribute("data-dirty");
  show(isNewest ? range.dataset.base : `${range.dataset.base}?seq=${sequenceAt(range)}`);
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
});
