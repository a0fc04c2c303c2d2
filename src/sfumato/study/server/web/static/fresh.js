// While something is being worked on, the part of the page that shows it is fetched again; the rest stays as it is.
"use strict";

function follow(part) {
  async function refresh() {
    if (document.hidden || part.querySelector("details[open]")) return again();
    let answer;
    try {
      answer = await fetch(part.dataset.fresh, { credentials: "same-origin", redirect: "error", cache: "no-store" });
    } catch {
      return again(); // the server is away, or the session has ended: the page itself will say so
    }
    if (answer.status === 401 || answer.status === 404) return;
    if (answer.ok) {
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-fresh]");
      if (!found) return;
      const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
      part.replaceChildren(...found.childNodes);
      if (focused) document.getElementById(focused)?.focus();
      part.dataset.busy = found.dataset.busy;
    }
    again();
  }

  function again() {
    if (part.dataset.busy === "true") setTimeout(refresh, 1500);
  }

  again();
}

document.querySelectorAll("[data-fresh]").forEach(follow);
