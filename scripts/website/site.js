// What the theme leaves out for those who use a keyboard or listen: a name of its own for each list of pages and each
// copy button, and a tab stop on whatever scrolls sideways. The theme adds some of it late.
const mend = () => {
  document.querySelectorAll("nav.md-nav nav.md-nav, nav.md-code__nav").forEach((one, place) => {
    if (one.hasAttribute("aria-label")) return;
    const named = document.getElementById(one.getAttribute("aria-labelledby"));
    one.setAttribute("aria-label", `${named ? named.textContent.trim() : "Code"} (${place + 1})`);
    one.removeAttribute("aria-labelledby");
  });
  for (const one of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code"))
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
};
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", mend);
mend();
