// The only classic, blocking script: it applies the chosen theme before the first paint, to avoid a flash,
// and marks that scripts run, so that no-script fallbacks are never shown.
document.documentElement.classList.add("js");
try {
  const theme = localStorage.getItem("retrace:theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else if (theme === "system") delete document.documentElement.dataset.theme;
} catch {
  // Storage is blocked: use the theme known to the server, or else the system's.
}
