/** The third page: how much may show through, in words and by a picture of the respondent's own answers. */

import { button, h, svg } from "./element.js";
import { epsilon, mostCertain, oneHot, usuallyCertain } from "./perturb.js";

const WORDS = [0.05, 0.2, 0.5, 0.8]; // how much nearer to certainty than guessing: from "almost nothing" on

/** Levels of the slider: every small one, then ever wider steps up to all bits. */
export function levels(width) {
  const found = [];
  for (let k = 1; k < width; k = Math.max(k + 1, Math.round(k * 1.25))) found.push(k);
  return [...found, width];
}

/** Share of the way from guessing to certainty. */
export const gain = (sure, choices) => (choices < 2 ? 0 : Math.max(0, (sure - 1 / choices) / (1 - 1 / choices)));

/** How sure somebody becomes on average of each answer. */
function usually(state, guidance, space, rule) {
  const rounds = Math.max(20, Math.min(300, Math.round(2e6 / space.width ** 2)));
  return usuallyCertain(oneHot(space, state.filled), guidance, space, rule, rounds);
}

/** What guidance would show of these answers: per question, and in one number. */
export function revealed(state, guidance, space, rule) {
  const most = mostCertain(oneHot(space, state.filled), guidance, space, rule);
  return { usual: usually(state, guidance, space, rule), most, epsilon: epsilon(guidance, space, rule) };
}

/** Per answer, the share of the way from guessing to certainty; nothing of those who prefer not to say. */
const gains = (usual, { choices }, { sizes }) => usual.map((sure, a) => (choices[a] === null ? 0 : gain(sure, sizes[a])));

/** The answer that shows most decides. */
const topGain = (usual, state, space) => Math.max(...gains(usual, state, space));

/** Whether guidance shows about as much of every answer as the picture did that the respondent agreed to, or less. */
export function asAgreed({ usual, epsilon: value }, state, space) {
  const { agreed } = state;
  if (!agreed) return false;
  const bounded = value <= 1.25 * (agreed.epsilon ?? Infinity); // infinity is stored as null
  return bounded && gains(usual, state, space).every((share, a) => share <= agreed.gains[a] + 0.15);
}

/** 0 (almost nothing) to 4 (nearly everything). */
const inWords = (usual, state, space) => WORDS.filter((limit) => topGain(usual, state, space) >= limit).length;

export function levelPage(ctx) {
  const { state, space, rule, preview } = ctx;
  const say = (key, values) => ctx.speaker.say(key, values);
  const steps = levels(space.width);
  const cache = new Map();
  const at = (k) => {
    if (!cache.has(k)) cache.set(k, revealed(state, preview.recomputed.guidance(k), space, rule));
    return cache.get(k);
  };
  const value = h("output", { class: "level", for: "limit" });
  const outcome = h("p", { class: "outcome" });
  const picture = h("div", {});
  const forward = h("button", { class: "primary" });
  const slider = h("input", { type: "range", id: "limit", min: 0, max: steps.length - 1, step: 1 });
  slider.style.setProperty("--steps", steps.length);
  slider.value = nearest(steps, state.limit ?? 1);
  const columns = preview.recomputed ? new Columns(ctx, steps) : null;
  const show = () => {
    state.limit = steps[slider.value];
    const found = preview.recomputed ? at(state.limit) : null;
    const words = found ? say(`reveals_${inWords(found.usual, state, space)}`) : "";
    const level = { k: state.limit, most: space.width, words };
    value.replaceChildren(h("strong", {}, say("level_value", level)), words ? h("span", { class: "words" }, words) : "");
    slider.setAttribute("aria-valuetext", words ? say("level_spoken", level) : say("level_value", level));
    const none = () => h("p", { class: "notice" }, say("picture_none", { why: say(preview.why) }));
    picture.replaceChildren(...(found ? [bars(ctx, found), formal(ctx, found.epsilon)] : [none()]));
    columns?.choose(Number(slider.value));
    state.agreed = found ? { gains: gains(found.usual, state, space), epsilon: found.epsilon } : null;
    const enough = preview.asked.k <= state.limit;
    outcome.textContent = enough ? say("can_send") : say("must_wait", { limit: state.limit });
    outcome.className = `outcome notice ${enough ? "good" : "mid"}`;
    forward.textContent = enough ? say("next") : say("go_wait");
  };
  slider.addEventListener("input", show);
  show();
  const now = h("b", {}, say("level_asked", { k: preview.asked.k }));
  const form = h(
    "form",
    {},
    h("h1", { tabindex: "-1" }, say("level_title")),
    h("p", { class: "lead" }, say("level_intro")),
    h(
      "div",
      { class: "card slider" },
      h("label", { for: "limit" }, say("level_limit")),
      value,
      columns?.element ?? "",
      slider,
      asked(preview.asked.k, steps),
      h("p", { class: "ends", "aria-hidden": "true" }, h("span", {}, say("share_little")), h("span", {}, say("share_more"))),
      h("p", { class: "hint" }, now, " ", columns ? say("level_columns") : ""),
    ),
    outcome,
    picture,
    h("p", { class: "actions" }, button(say("back"), () => ctx.go("questions")), forward),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ctx.limited();
  });
  return [form];
}

const nearest = (steps, k) => steps.findLastIndex((step) => step <= Math.max(k, 1));

/** One column above the slider for each level, drawn one after another: how much the most visible answer shows. */
class Columns {
  constructor(ctx, steps) {
    const width = 100 / steps.length;
    this.rects = steps.map((_, at) => {
      const place = { x: `${(at + 0.12) * width}%`, width: `${0.76 * width}%`, rx: 2 };
      return svg("rect", { ...place, y: "100%", height: 0 });
    });
    this.element = svg("svg", { class: "columns", "aria-hidden": "true" }, this.rects);
    const turn = ctx.turn;
    const draw = (at) => {
      if (at >= steps.length || ctx.turn !== turn) return;
      const usual = usually(ctx.state, ctx.preview.recomputed.guidance(steps[at]), ctx.space, ctx.rule);
      const height = 4 + 96 * topGain(usual, ctx.state, ctx.space);
      this.rects[at].setAttribute("y", `${100 - height}%`);
      this.rects[at].setAttribute("height", `${height}%`);
      setTimeout(() => draw(at + 1));
    };
    setTimeout(() => draw(0));
  }

  choose(chosen) {
    this.rects.forEach((rect, at) => rect.setAttribute("class", at === chosen ? "chosen" : at < chosen ? "below" : ""));
  }
}

/** A mark below the slider where the level lies that is asked for at present. */
function asked(k, steps) {
  const place = steps.findIndex((step) => step >= k);
  const share = (100 * (place + 0.5)) / steps.length;
  const mark = svg("path", { d: "M0 1 L5 9 L-5 9 Z", class: "mark" });
  const holder = svg("svg", { x: `${share}%`, overflow: "visible" }, mark);
  return svg("svg", { class: "asked", height: "10", "aria-hidden": "true" }, holder);
}

/** One row for each question: the answer in a haze, and how sure somebody becomes of it. */
export function bars(ctx, found, title = "picture_title") {
  const say = (key, values) => ctx.speaker.say(key, values);
  const legend = ["usual", "most", "chance"].map((name) => h("li", { class: name }, say(`legend_${name}`)));
  return h(
    "section",
    { class: "picture" },
    h("h2", {}, say(title)),
    h("ul", { class: "legend", "aria-hidden": "true" }, legend),
    h("ul", { class: "rows" }, ctx.survey.questions.map((question, a) => row(ctx, question, a, found))),
  );
}

function row(ctx, question, a, { usual, most }) {
  const { state, space, speaker } = ctx;
  const asked = h("span", { class: "asked-text" }, speaker.text(question.text));
  if (state.choices[a] === null) return h("li", {}, asked, h("span", { class: "hint" }, speaker.say("picture_blank")));
  const chance = 1 / space.sizes[a];
  const answer = h("span", { class: "haze" }, speaker.choices(question)[state.choices[a]]);
  answer.style.filter = `blur(${(0.3 * (1 - gain(usual[a], space.sizes[a]))).toFixed(3)}em)`;
  const numbers = h(
    "span",
    { class: "numbers" },
    h("b", {}, speaker.say("picture_usual", { usual: speaker.percent(usual[a]) })),
    ` · ${speaker.say("picture_chance", { chance: speaker.percent(chance) })}`,
    ` · ${speaker.say("picture_most", { most: speaker.percentAtMost(most[a]) })}`,
  );
  return h("li", {}, asked, answer, bar(usual[a], most[a], chance), numbers);
}

function bar(usual, most, chance) {
  const part = (share, kind) => svg("rect", { x: 0, y: 0, width: `${100 * share}%`, height: "100%", class: kind });
  const tick = svg("rect", { x: `${100 * chance}%`, y: 0, width: 2, height: "100%", class: "tick" });
  const parts = [part(1, "track"), part(most, "most"), part(usual, "usual"), tick];
  return svg("svg", { class: "bar", "aria-hidden": "true" }, parts);
}

/** Epsilon for those who want it. */
export function formal(ctx, value) {
  const say = (key, values) => ctx.speaker.say(key, values);
  if (!Number.isFinite(value)) return h("p", { class: "notice bad" }, say("epsilon_none"));
  const shown = { epsilon: ctx.speaker.numberAtMost(value) };
  return h("details", {}, h("summary", {}, say("epsilon_title", shown)), h("p", {}, say("epsilon_text", shown)));
}
