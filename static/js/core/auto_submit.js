// <select data-submits>: choosing sends the form.
document.addEventListener("change", (event) => event.target.closest("[data-submits]")?.form.requestSubmit());
