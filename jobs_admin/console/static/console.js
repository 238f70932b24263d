// What every page does in the browser: live updates, keyboard, times, theme, copying.
// Pages work without it, except that they do not update by themselves.

const main = document.getElementById("main");
const notice = document.getElementById("notice");

// ---- Preferences

const THEMES = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");
const zoneButton = document.getElementById("zone");

function setTheme(name) {
  if (name === "auto") {
    localStorage.removeItem("theme");
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem("theme", name);
    document.documentElement.dataset.theme = name;
  }
  themeButton.textContent = name;
}

function nextTheme() {
  const now = localStorage.getItem("theme") ?? "auto";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

function showsUtc() {
  return localStorage.getItem("zone") === "utc";
}

function setZone(utc) {
  localStorage.setItem("zone", utc ? "utc" : "local");
  zoneButton.textContent = utc ? "UTC" : "local";
  showTimes();
}

// ---- Times: the server writes UTC and ages; the browser knows the time zone.

const pad = (number, width = 2) => String(number).padStart(width, "0");

function localText(moment) {
  const day = `${moment.getFullYear()}-${pad(moment.getMonth() + 1)}-${pad(moment.getDate())}`;
  const time = `${pad(moment.getHours())}:${pad(moment.getMinutes())}:${pad(moment.getSeconds())}`;
  return `${day} ${time}`;
}

function utcText(moment) {
  return `${moment.toISOString().slice(0, 19).replace("T", " ")}Z`;
}

export function showTimes(within = document) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    time.title = `${localText(moment)} local\n${utcText(moment)}`;
    if (time.dataset.show === "moment") {
      time.textContent = showsUtc() ? utcText(moment) : localText(moment);
    }
  }
}

main.addEventListener("updated", () => showTimes(main));

// ---- Live updates: a hint says that something has changed, and the page reads again.

const liveButton = document.getElementById("live");
const MIN_INTERVAL = 900;
let source = null;
let sequence = main.dataset.sequence ?? null;
let isPaused = sessionStorage.getItem("live") === "paused";
let isReading = false;
// A reply to `readAgain` is on its way: the page did not ask for it on behalf of its user.
let isFetching = false;
let isDirty = false;
// A hint came while its user was busy: the page reads again when they are not any more.
let isMissed = false;
const RETRY_DELAY = 3000;

async function readAgain() {
  if (isReading) {
    isDirty = true;
    return;
  }
  isReading = isFetching = true;
  isDirty = isMissed = false;
  try {
    await htmx.ajax("GET", location.href, {
      target: "#main",
      swap: "innerMorph",
      headers: sequence ? { "X-Min-Seq": sequence } : {},
    });
    main.dispatchEvent(new CustomEvent("updated"));
  } finally {
    isFetching = false;
    setTimeout(() => {
      isReading = false;
      if (isDirty && isBusy()) isMissed = true;
      else if (isDirty && !document.hidden && !isPaused) readAgain();
    }, MIN_INTERVAL);
  }
}

function isBusy() {
  // A form that its user fills in, or an open dialog, must not change under their hands.
  // What was typed into a dialog before it was closed does not count.
  const isUsed = (form) => form.closest("dialog")?.open ?? true;
  return [...main.querySelectorAll("dialog[open], form[data-dirty]")].some(isUsed);
}

function listen() {
  const topics = main.dataset.topics;
  if (source || !topics || isPaused || document.hidden) return;
  const after = sequence === null ? "" : `&after=${sequence}`;
  source = new EventSource(`/hints?topics=${encodeURIComponent(topics)}${after}`);
  source.onmessage = (event) => {
    sequence = event.lastEventId;
    if (isBusy()) isMissed = true;
    else readAgain();
  };
  source.onopen = () => {
    if (document.documentElement.classList.contains("offline")) say("Live updates go on.");
    document.documentElement.classList.remove("offline");
    document.documentElement.dataset.live = "on";
  };
  source.onerror = () => {
    if (!document.documentElement.classList.contains("offline")) say("Live updates are interrupted. Trying again…");
    document.documentElement.classList.add("offline");
    if (source?.readyState !== EventSource.CLOSED) return;
    // After a reply other than 200 the browser does not try again.
    source = null;
    setTimeout(listen, RETRY_DELAY);
  };
}

function readWhatWasMissed() {
  if (isMissed && !isPaused && !isBusy()) readAgain();
}

// The events that can end what kept the page from changing; `close` does not bubble.
for (const name of ["close", "focusout", "reset"]) document.addEventListener(name, () => setTimeout(readWhatWasMissed), true);

function stopListening() {
  source?.close();
  source = null;
  delete document.documentElement.dataset.live;
}

// A reply to `readAgain` that comes after its user has paused the page, or opened a dialog, does not
// change it.
document.addEventListener("htmx:before:swap", (event) => {
  if (!isFetching || !(isPaused || isBusy())) return;
  event.preventDefault();
  isMissed = true;
});

function setPaused(paused) {
  isPaused = paused;
  sessionStorage.setItem("live", paused ? "paused" : "on");
  document.documentElement.classList.toggle("paused", paused);
  liveButton.textContent = paused ? "paused" : "live";
  if (paused) stopListening();
  else {
    listen();
    if (main.dataset.topics) readAgain();
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) stopListening();
  else {
    listen();
    if (main.dataset.topics && !isPaused && !isBusy()) readAgain();
  }
});

// ---- Keyboard

let awaitsScreen = false;
const rows = () => [...main.querySelectorAll("[data-row]")];

function focusRow(step) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.indexOf(document.activeElement?.closest("[data-row]"));
  const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  // Enter on the focused element opens what a click on the row opens.
  const opens = [...next.querySelectorAll("a")].find((link) => link.matches(`[href="${next.dataset.open}"]`));
  (opens ?? next.querySelector("a, button, input") ?? next).focus();
}

function selectRow() {
  const box = document.activeElement?.closest("[data-row]")?.querySelector("input[type=checkbox]");
  box?.click();
}

// People who dictate would trigger them by accident.
const keysBox = document.getElementById("use-keys");
keysBox.checked = localStorage.getItem("keys") !== "off";
keysBox.onchange = () => localStorage.setItem("keys", keysBox.checked ? "on" : "off");

const KEYS = {
  "/": () => document.getElementById("search")?.focus(),
  "?": () => document.getElementById("shortcuts").showModal(),
  j: () => focusRow(1),
  k: () => focusRow(-1),
  x: selectRow,
  p: () => setPaused(!isPaused),
  u: () => setZone(!showsUtc()),
  t: nextTheme,
  g: () => {
    awaitsScreen = true;
    setTimeout(() => (awaitsScreen = false), 1500);
  },
};

function isTyping(target) {
  return target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable], dialog");
}

document.addEventListener("keydown", (event) => {
  if (!keysBox.checked || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (awaitsScreen) {
    awaitsScreen = false;
    const link = document.querySelector(`nav [data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
    return;
  }
  const act = KEYS[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

// ---- Clicks

function say(text) {
  notice.textContent = text;
  setTimeout(() => {
    if (notice.textContent === text) notice.textContent = "";
  }, 4000);
}

document.addEventListener("click", async (event) => {
  const copied = event.target.closest("[data-copy]");
  if (copied) {
    try {
      await navigator.clipboard.writeText(copied.dataset.copy);
      say("Copied.");
    } catch {
      // Browsers have no clipboard for pages of other machines without https.
      window.prompt("Copy this text:", copied.dataset.copy);
    }
    return;
  }
  const opener = event.target.closest("[data-dialog]");
  if (opener) {
    document.getElementById(opener.dataset.dialog)?.showModal();
    return;
  }
  const row = event.target.closest("tr[data-open]");
  if (row && !event.target.closest("a, button, input, label, summary")) location.href = row.dataset.open;
});

document.addEventListener("input", (event) => {
  event.target.closest("main form")?.setAttribute("data-dirty", "");
});

themeButton.onclick = nextTheme;
zoneButton.onclick = () => setZone(!showsUtc());
liveButton.onclick = () => setPaused(!isPaused);
document.getElementById("keys").onclick = KEYS["?"];

setTheme(localStorage.getItem("theme") ?? "auto");
setZone(showsUtc());
setPaused(isPaused);
