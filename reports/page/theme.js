// Before the first paint: the theme that the reader chose last, and closed contents on a narrow screen.
"use strict";
document.documentElement.classList.add("scripted");
try {
  const chosen = localStorage.getItem("hpcai-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* Without storage the system's theme holds. */ }
