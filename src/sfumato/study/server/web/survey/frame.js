/** What stands around every page: the steps, the language, what lies on this device, and what is read aloud. */

import { button, h } from "./element.js";
import { languageName } from "./words.js";

const STEPS = ["about", "questions", "level", "send"];

/** Draw the page of a step; a fresh one begins at its heading, a redrawn one leaves the reader where he was. */
export function drawFrame(ctx, step, page, fresh) {
  const { speaker, survey } = ctx;
  document.documentElement.lang = speaker.spoken;
  document.title = survey ? `${survey.name}: ${speaker.say(`step_${step}`)}` : "Survey";
  document.querySelector(".skip").textContent = speaker.say("skip");
  document.querySelector("header").replaceChildren(...head(ctx, step));
  const focused = places().indexOf(document.activeElement);
  document.querySelector("main").replaceChildren(...page(ctx).flat(Infinity).filter(Boolean));
  if (!fresh && focused >= 0) places()[focused]?.focus({ preventScroll: true });
  drawFoot(ctx);
  const heading = document.querySelector("main h1");
  const spoken = ctx.offline ? speaker.say("offline_load") : (heading ?? document.querySelector(".under-way"))?.textContent;
  document.getElementById("status").textContent = spoken ?? "";
  if (!fresh || !survey) return;
  scrollTo(0, 0);
  heading?.focus({ preventScroll: true });
}

/** Where a reader, or the keyboard, may be on a page. */
const places = () => [...document.querySelectorAll("main :is(h1, button, input, select, summary)")];

function head(ctx, step) {
  const { speaker, survey } = ctx;
  const item = (name) => h("li", { "aria-current": name === step ? "step" : null }, speaker.say(`step_${name}`));
  const offered = survey ? ctx.offered() : [];
  const options = offered.map((code) => h("option", { value: code, lang: code }, languageName(code)));
  const list = h("select", { "aria-label": speaker.say("language"), onchange: () => ctx.speak(list.value) }, options);
  const name = survey && step !== "about" ? survey.name : "";
  list.value = speaker.language;
  return [
    h("div", { class: "top" }, h("span", { class: "brand" }, name), offered.length > 1 ? list : ""),
    survey ? h("ol", { class: "steps", "aria-label": speaker.say("steps") }, STEPS.map(item)) : "",
  ];
}

/** Whether answers lie on this device, and the button that deletes them. */
export function drawFoot(ctx) {
  const { speaker } = ctx;
  const kept = () => [h("p", {}, speaker.say("kept")), button(speaker.say("delete"), () => ctx.forget(), "quiet")];
  document.querySelector("footer").replaceChildren(...(ctx.stored ? kept() : []));
}
