// What the desk does beyond forms: the way in, dropping a file, the slider, and watching a job. All of it works without.
"use strict";

function enter() {
  const form = document.getElementById("entry");
  if (!form) return;
  const token = location.hash.slice(1);
  if (!token) return;
  history.replaceState(null, "", "/"); // out of the address, and of the history
  form.elements.token.value = token;
  form.submit();
}

function takeDrops() {
  const card = document.querySelector("[data-drop]");
  if (!card) return;
  const file = card.querySelector("input[type=file]");
  document.addEventListener("dragover", (event) => { event.preventDefault(); card.classList.add("over"); });
  document.addEventListener("dragleave", () => card.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    card.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    file.files = event.dataTransfer.files;
    card.requestSubmit();
  });
}

function followSlider() {
  const form = document.querySelector("[data-strength]");
  if (!form) return;
  const slide = document.getElementById("slide"), typed = document.getElementById("chances");
  const show = () => {
    const trust = form.elements.trust.value;
    const row = document.querySelector(`[data-trust=${trust}] [data-chances="${Number(typed.value).toFixed(1)}"]`);
    if (!row) return;
    for (const shown of form.querySelectorAll("[data-shows]"))
      shown.textContent = row.querySelector(`[data-is="${shown.dataset.shows}"]`).textContent;
    const holds = { owner: trust === "owner", nobody: trust === "nobody", saved: false, moved: true };
    for (const part of form.querySelectorAll("[data-of]")) part.hidden = !holds[part.dataset.of];
  };
  slide.addEventListener("input", () => { typed.value = slide.value; });
  typed.addEventListener("input", () => { slide.value = typed.value; });
  form.addEventListener("input", show);
}

const WATCHING = { cache: "no-store", headers: { "X-Watching": "1" } }; // what is shown once is not used up by it

let typed = false;
document.addEventListener("input", () => { typed = true; });

async function watchJob() {
  const job = document.querySelector("[data-job]");
  if (!job) return;
  await new Promise((resolve) => setTimeout(resolve, 1000));
  try {
    const answer = await fetch(location.href, WATCHING);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.querySelector("[data-job]");
    if (!next) {
      if (typed) job.remove(); // what was typed into the page meanwhile is not lost
      else location.reload();
      return;
    }
    for (const part of ["h2", "p", "progress"]) job.querySelector(part).replaceWith(next.querySelector(part));
    const shown = document.querySelector("[data-live]"), now = page.querySelector("[data-live]");
    if (shown && now) shown.replaceWith(now);
  } catch { /* the desk may be busy; it is asked again */ }
  watchJob();
}

enter();
takeDrops();
followSlider();
watchJob();
// An open page keeps the desk alive.
if (!document.getElementById("entry")) setInterval(() => fetch(location.href, WATCHING).catch(() => {}), 120000);
