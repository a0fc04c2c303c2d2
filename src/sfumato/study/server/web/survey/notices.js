/** Pages that only say something: loading, waiting, sent, refused. Each is a function of the interface. */

import { button, h } from "./element.js";
import { trust } from "./questions.js";

const title = (text) => h("h1", { tabindex: "-1" }, text);
const haze = () => h("div", { class: "cloud", "aria-hidden": "true" });

/** Something is under way; without a connection, say so. */
function underWay(key, offlineKey) {
  return (ctx) => [
    haze(),
    h("p", { class: "under-way" }, ctx.speaker.say(key)),
    ctx.offline ? h("p", { class: "notice mid", role: "alert" }, ctx.speaker.say(offlineKey)) : null,
  ];
}

export const loading = underWay("loading", "offline_load");
export const asking = underWay("asking", "offline_load");
export const deleting = underWay("deleting", "deleting");

export function sending(ctx) {
  const say = (key) => ctx.speaker.say(key);
  if (!ctx.offline) return underWay("sending", "offline")(ctx);
  return [haze(), title(say("unsent_title")), h("p", { class: "notice mid", role: "alert" }, say("offline"))];
}

export function waiting(ctx) {
  const say = (key, values) => ctx.speaker.say(key, values);
  const { k, since, offline } = ctx.waiting;
  const { limit } = ctx.state;
  const asked = () => say("waiting_asked", { time: ctx.speaker.time(since) });
  const now = () => [h("strong", {}, say("waiting_level", { k, limit })), " ", asked()];
  return [
    haze(),
    title(say("waiting_title")),
    h("p", { class: "lead" }, say("waiting_text", { limit })),
    k === null ? null : h("p", { class: "notice mid" }, now()),
    offline ? h("p", { class: "notice mid", role: "alert" }, say("offline")) : null,
    h("p", {}, say(ctx.state.agreed ? "waiting_open" : "waiting_look")),
    h("p", { class: "actions" }, button(say("change_level"), () => change(ctx))),
  ];
}

function change(ctx) {
  ctx.state.confirmed = false;
  ctx.go("level");
}

export function done(ctx) {
  const say = (key) => ctx.speaker.say(key);
  const good = h("p", { class: "notice good" }, say("done_text"));
  return [haze(), title(say("done_title")), good, h("p", {}, say("final")), afterwards(ctx)];
}

export function already(ctx) {
  const say = (key) => ctx.speaker.say(key);
  return [title(say("already_title")), h("p", { class: "lead" }, say("final")), afterwards(ctx)];
}

function afterwards(ctx) {
  return [
    h("p", { class: "hint" }, ctx.speaker.say("done_again")),
    h("p", { class: "actions" }, button(ctx.speaker.say("forget"), () => ctx.forget())),
  ];
}

export function deleted(ctx) {
  const say = (key) => ctx.speaker.say(key);
  return [title(say("deleted")), h("p", { class: "actions" }, button(say("begin"), () => ctx.go("about"), "primary"))];
}

export function closed(ctx) {
  return [title(ctx.speaker.say("closed_title")), h("p", { class: "lead" }, ctx.speaker.say("closed_text"))];
}

export function changed(ctx) {
  const say = (key) => ctx.speaker.say(key);
  return [title(say("changed_title")), h("p", { class: "notice bad" }, say("changed_text"))];
}

/** Guidance that was refused: what did not fit, and that nothing was sent. */
export function refused(error) {
  return (ctx) => {
    const say = (key, values) => ctx.speaker.say(key, values);
    const reason = say(error.reason, { detail: error.detail });
    const wrong = error.reason.startsWith("survey_");
    return [
      title(say(wrong ? "refused_survey" : "refused_title")),
      h("div", { class: "notice bad", role: "alert" }, h("p", {}, say("refused_text")), h("p", {}, h("strong", {}, reason))),
      h("p", {}, say(wrong ? "refused_survey_help" : "refused_help")),
      h("p", { class: "actions" }, button(say("again"), () => location.reload(), "primary")),
    ];
  };
}

export function server(error) {
  return (ctx) => [
    title(ctx.speaker.say("server_title")),
    h("p", { class: "notice bad", role: "alert" }, error.message),
    h("p", { class: "actions" }, button(ctx.speaker.say("again"), () => location.reload(), "primary")),
  ];
}

export function failed(key) {
  return (ctx) => [
    title(ctx.speaker.say("failed_title")),
    h("p", { class: "notice bad", role: "alert" }, ctx.speaker.say(key)),
    trust(ctx),
  ];
}

/** The browser keeps nothing: what was typed is still in this window, and nowhere else. */
export function unkept(ctx) {
  const say = (key) => ctx.speaker.say(key);
  return [
    title(say("unkept_title")),
    h("p", { class: "notice bad", role: "alert" }, say("unkept_text")),
    h("p", { class: "actions" }, button(say("again"), () => ctx.again(), "primary")),
  ];
}
