// Runs before the page is drawn, so that a dark page does not flash.
const theme = localStorage.getItem("theme");
if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
