// The button that changes the theme. What is drawn in its colours listens to the event hpcai-theme.
"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const button = document.getElementById("theme");
  const nameTheme = () => { button.textContent = isDark() ? "Light" : "Dark"; button.title = `Show the page ${isDark() ? "light" : "dark"}`; };
  const showTheme = () => { nameTheme(); dispatchEvent(new Event("hpcai-theme")); };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("hpcai-theme", root.dataset.theme); } catch { /* Not remembered. */ }
    showTheme();
  });
  system.addEventListener("change", showTheme);
  nameTheme();
  button.hidden = false;
  window.hpcaiIsDark = isDark;
})();
