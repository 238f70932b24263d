// The live tail: new rows at the top, held back while its user reads or selects.

import { showTimes } from "./console.js";

const MAX_ROWS = 500;
const RETRY_DELAY_MS = 3000;
const table = document.getElementById("tail");
const rows = document.getElementById("tail-rows");
const state = document.getElementById("tail-state");
const pause = document.getElementById("tail-pause");
let after = table.dataset.after;
let source = null;
let isPaused = false;
// Rows that came while the page was paused, the newest first; and how many there were in all.
let held = [];
let heldCount = 0;

function isReading() {
  const selection = document.getSelection();
  const isSelecting = !selection.isCollapsed && rows.contains(selection.anchorNode);
  return isPaused || isSelecting || window.scrollY > 80;
}

function countOf(row) {
  return row.dataset.skipped ? Number(row.dataset.skipped) : 1;
}

function showState() {
  if (heldCount > 0) state.textContent = `${heldCount.toLocaleString("en")} new events wait. Scroll to the top, or resume, to see them.`;
  else if (isPaused) state.textContent = "Paused.";
  else state.textContent = source ? "New events appear at the top." : "Not connected.";
}

function show(newer) {
  document.getElementById("tail-empty")?.remove();
  for (const row of newer) row.classList.add("fresh");
  rows.prepend(...newer);
  while (rows.children.length > MAX_ROWS) rows.lastElementChild.remove();
  showTimes(rows);
}

function release() {
  if (isReading() || heldCount === 0) return;
  show(held);
  held = [];
  heldCount = 0;
  showState();
}

function receive(event) {
  after = event.lastEventId;
  const parsed = document.createElement("template");
  parsed.innerHTML = event.data;
  const newer = [...parsed.content.children];
  if (!isReading() && heldCount === 0) {
    show(newer);
    return;
  }
  held = [...newer, ...held].slice(0, MAX_ROWS);
  heldCount += newer.reduce((sum, row) => sum + countOf(row), 0);
  release();
  showState();
}

function listen() {
  if (source || document.hidden) return;
  // The browser sends the newest position itself when it reconnects.
  source = new EventSource(`${table.dataset.source}&after=${after}`);
  source.onmessage = receive;
  source.onopen = showState;
  source.onerror = tryAgain;
  showState();
}

// After a refusal, such as 503, the browser does not connect again by itself.
function tryAgain() {
  state.textContent = "The connection was lost. Trying again…";
  if (source?.readyState !== EventSource.CLOSED) return;
  source = null;
  // listen() does nothing if the page is hidden, or connected again, by then.
  setTimeout(listen, RETRY_DELAY_MS);
}

function stop() {
  source?.close();
  source = null;
}

function setPaused(paused) {
  isPaused = paused;
  pause.textContent = paused ? "Resume" : "Pause";
  pause.setAttribute("aria-pressed", String(paused));
  if (!paused) {
    document.getSelection().removeAllRanges();
    window.scrollTo({ top: 0, behavior: "instant" });
  }
  release();
  showState();
}

pause.onclick = () => setPaused(!isPaused);
document.addEventListener("visibilitychange", () => (document.hidden ? stop() : listen()));
document.addEventListener("selectionchange", release);
window.addEventListener("scroll", release, { passive: true });
listen();
