// The only classic, blocking script: it sets the chosen theme before the first paint, so that nothing flashes,
// and says that scripts run, so that what they replace never shows.
document.documentElement.classList.add("js");
try {
  const theme = localStorage.getItem("retrace:theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else if (theme === "system") delete document.documentElement.dataset.theme;
} catch {
  // Storage is blocked: the theme that the server knows, else the system's.
}
