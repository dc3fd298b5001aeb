// <select data-submits>: a selection submits the form.
document.addEventListener("change", (event) => event.target.closest("[data-submits]")?.form.requestSubmit());
