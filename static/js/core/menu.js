// <details class="menu">: closes on Esc, on a click elsewhere, and when another opens.

function openMenus() {
  return document.querySelectorAll("details.menu[open]");
}

document.addEventListener("click", (event) => {
  for (const menu of openMenus()) if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of openMenus()) {
    menu.open = false;
    menu.querySelector("summary")?.focus();
    event.preventDefault();
  }
});
