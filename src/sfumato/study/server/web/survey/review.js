/** The last page: exactly which bits are sent, what they show, and what was checked. */

import { button, h } from "./element.js";
import { bars, formal } from "./level.js";
import { oneHot, posteriors } from "./perturb.js";

const MANY = 12; // choices beyond which only those are named that are sent as 1, and the respondent's own

export function reviewPage(ctx) {
  const { state, survey } = ctx;
  const say = (key, values) => ctx.speaker.say(key, values);
  const { draw } = state;
  const { guidance } = ctx;
  const beliefs = posteriors(oneHot(ctx.space, state.filled), draw.bits, guidance, ctx.space, ctx.rule);
  const legend = ["yours", "one", "zero"].map((name) => h("li", { class: name }, say(`legend_${name}`)));
  const label = ctx.speaker.choices(survey.label)[draw.label];
  const open = [say("review_intro"), say("review_level", { k: guidance.k, limit: state.limit }), say("review_believe")];
  const send = button(say("send"), () => ctx.confirmed(), "primary");
  return [
    h("h1", { tabindex: "-1" }, say("review_title")),
    ctx.more ? h("p", { class: "notice bad", role: "alert" }, say(state.agreed ? "review_more" : "review_first")) : null,
    h("p", { class: "lead" }, open.join(" ")),
    h(
      "section",
      { class: "bits" },
      h("ul", { class: "legend", "aria-hidden": "true" }, legend),
      h("ul", { class: "rows" }, survey.questions.map((question, a) => row(ctx, question, a, beliefs[a]))),
      h(
        "div",
        { class: "label-card" },
        h("p", { class: "tag" }, say("label_title")),
        h("p", {}, `${ctx.speaker.text(survey.label.text)} `, h("strong", {}, label)),
      ),
    ),
    h("details", {}, h("summary", {}, say("review_message")), h("pre", {}, h("code", {}, JSON.stringify(draw)))),
    h("details", {}, h("summary", {}, say("picture_title")), bars(ctx, ctx.found), formal(ctx, ctx.found.epsilon)),
    checks(ctx),
    h("p", { class: "notice mid" }, h("strong", {}, say("final"))),
    h("p", { class: "actions" }, button(say("back"), () => ctx.go("level")), send),
  ];
}

function row(ctx, question, a, belief) {
  const { state, space, speaker } = ctx;
  const texts = speaker.choices(question);
  const sent = new Set(state.draw.bits);
  const ones = texts.filter((_, choice) => sent.has(space.starts[a] + choice));
  const cells = texts.flatMap((text, choice) => {
    const one = sent.has(space.starts[a] + choice);
    const yours = state.choices[a] === choice;
    if (texts.length > MANY && !one && !yours) return [];
    return [h("li", { class: `${one ? "one" : "zero"}${yours ? " yours" : ""}` }, text)];
  });
  const others = texts.length - cells.length;
  if (others) cells.push(h("li", { class: "zero" }, speaker.say("review_others", { count: others })));
  const yours = state.choices[a] === null ? null : texts[state.choices[a]];
  const shown = { belief: speaker.percent(belief[state.filled[a]]), chance: speaker.percent(1 / texts.length) };
  return h(
    "li",
    {},
    h("span", { class: "asked-text" }, speaker.text(question.text)),
    h("ul", { class: "cells", "aria-hidden": "true" }, cells),
    h(
      "span",
      { class: "aloud" },
      yours === null ? "" : `${speaker.say("review_answer")}: ${yours}. `,
      `${speaker.say("review_sent")}: ${ones.join(", ") || speaker.say("review_nothing")}. `,
    ),
    h("span", { class: "hint" }, yours === null ? speaker.say("review_blank") : speaker.say("review_belief", shown)),
  );
}

/** What this device checked before it drew, good and missing alike. */
function checks(ctx) {
  const say = (key, values) => ctx.speaker.say(key, values);
  const found = ctx.state.checks;
  const witnessed = found.witnesses.map((witness) => {
    const agrees = witness.state === "agrees";
    return [agrees, say(agrees ? (witness.own ? "check_witness_own" : "check_witness") : "check_silent", witness)];
  });
  const { linked } = ctx.server;
  const lines = [
    [linked, say(linked ? "check_link" : "check_link_not")],
    ctx.survey.invitations ? [true, say("check_ticket")] : null,
    [true, say("check_size")],
    [true, say("check_hash", { version: ctx.state.draw.version })],
    [true, say("check_chain")],
    found.why ? [false, say("check_counts_not", { why: say(found.why) })] : [true, say("check_counts")],
    [found.remembered, say(found.remembered ? "check_remembered" : "check_first")],
    ...(witnessed.length ? witnessed : [[false, say("check_unwitnessed")]]),
  ];
  return h(
    "section",
    { class: "checks" },
    h("h2", {}, say("checks_title")),
    h("ul", {}, lines.filter(Boolean).map(([good, text]) => h("li", { class: good ? "yes" : "no" }, text))),
  );
}
