/** The first two pages: what this is about, and the questions. */

import { button, h, paragraphs } from "./element.js";
import { interval } from "./perturb.js";

const MANY = 12; // choices beyond which a list to open is shorter than a list to read

export function aboutPage(ctx) {
  const { survey } = ctx;
  const say = (key, values) => ctx.speaker.say(key, values);
  const consent = ctx.speaker.text(survey.consent);
  const until = ctx.closes ? ` · ${say("closes", { date: ctx.speaker.day(ctx.closes) })}` : "";
  const points = [
    say("promise_blur"),
    say("promise_level"),
    say("promise_label", { label: ctx.speaker.text(survey.label.text) }),
    survey.invitations ? say("promise_ticket") : null,
    h("strong", {}, say("promise_final")),
  ];
  return [
    h("h1", { tabindex: "-1" }, survey.name),
    h("p", { class: "facts" }, say("by", { by: survey.by }), until),
    h("div", { class: "lead" }, paragraphs(ctx.speaker.text(survey.about))),
    h(
      "section",
      { class: "card" },
      h("h2", {}, say("promise_title")),
      h("ul", { class: "points" }, points.filter(Boolean).map((point) => h("li", {}, point))),
    ),
    consent ? h("section", {}, h("h2", {}, say("consent_title")), paragraphs(consent)) : null,
    identity(ctx),
    trust(ctx),
    h("p", { class: "actions" }, button(say("begin"), () => ctx.go("questions"), "primary")),
  ];
}

/** The hash of the survey file, and whether the link vouches for it. */
function identity(ctx) {
  const { linked } = ctx.server;
  const fingerprint = ctx.description.hash.replace(/^sha256:/, "");
  const parts = fingerprint.match(/.{8}/g).map((part) => h("span", {}, part));
  return h(
    "section",
    { class: linked ? "identity" : "identity unlinked" },
    h("h2", {}, ctx.speaker.say("hash_title")),
    h("p", {}, ctx.speaker.say(linked ? "hash_linked" : "hash_unlinked")),
    h("code", { class: "fingerprint" }, parts),
  );
}

export function trust(ctx) {
  const say = (key, values) => ctx.speaker.say(key, values);
  return h(
    "section",
    { class: "trust" },
    h("h2", {}, say("trust_title")),
    h("p", {}, say("trust_text", { origin: location.host || location.origin })),
    h("p", {}, say("trust_kept")),
  );
}

export function questionsPage(ctx) {
  const say = (key, values) => ctx.speaker.say(key, values);
  const { questions, label } = ctx.survey;
  const form = h("form", { novalidate: true });
  const alarm = h("p", { class: "notice bad hidden", role: "alert" });
  const fields = questions.map((question, at) => field(ctx, question, `${at + 1}`, true));
  const last = field(ctx, label, `${questions.length + 1}`, false);
  form.append(
    h("h1", { tabindex: "-1" }, say("step_questions")),
    ...fields,
    h(
      "div",
      { class: "label-card" },
      h("p", { class: "tag" }, say("label_title")),
      last,
      h("p", { class: "hint" }, say("label_hint")),
    ),
    alarm,
    h(
      "p",
      { class: "actions" },
      button(say("back"), () => ctx.go("about")),
      h("button", { class: "primary" }, say("next")),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const all = [...questions, label];
    const open = all.filter((question) => choiceOf(question, ctx.state.values[question.place]) === undefined);
    const names = open.map((question) => question.name);
    for (const box of form.querySelectorAll("fieldset")) mark(box, names.includes(box.dataset.name));
    alarm.classList.toggle("hidden", open.length === 0);
    if (!open.length) return ctx.answered();
    alarm.textContent = say("missing_count", { count: open.length });
    return form.querySelector("fieldset.open :is(input, select)").focus();
  });
  return [form];
}

/** The number of the choice, null for "prefer not to say", undefined where there is no answer yet. */
export function choiceOf(question, value) {
  if (value === undefined || value === "") return undefined;
  if (value === null) return null;
  if (question.kind !== "number") return value;
  const number = Number(String(value).replace(",", "."));
  return Number.isFinite(number) ? interval(number, question.edges) : undefined;
}

function field(ctx, question, number, may) {
  const { state } = ctx;
  const id = `question-${number}`;
  const keep = (value) => {
    state.values[question.place] = value;
    ctx.keepSoon();
    if (choiceOf(question, value) !== undefined) mark(box, false);
  };
  const kind = question.kind === "number" ? numberField : question.choices.length > MANY ? listField : choiceField;
  const box = h(
    "fieldset",
    { "data-name": question.name },
    h("legend", {}, h("span", { class: "number", "aria-hidden": "true" }, number), ctx.speaker.text(question.text)),
    kind(ctx, question, id, keep, may),
    h("p", { class: "error hidden", id: `${id}-error` }, ctx.speaker.say(may ? "missing" : "missing_label")),
  );
  return box;
}

/** Say that an answer is missing, or no longer is; what is not shown is not read aloud either. */
function mark(box, open) {
  const error = box.querySelector(".error");
  box.classList.toggle("open", open);
  error.classList.toggle("hidden", !open);
  if (open) box.setAttribute("aria-describedby", error.id);
  else box.removeAttribute("aria-describedby");
}

function radio(id, text, checked, choose, extra = "") {
  const input = h("input", { type: "radio", name: id, onchange: choose });
  input.checked = checked;
  return h("label", { class: `choice ${extra}` }, input, h("span", {}, text));
}

function preferNot(ctx, id, keep, checked, change = () => {}) {
  const chosen = () => {
    keep(null);
    change();
  };
  const shown = radio(id, ctx.speaker.say("prefer_not"), checked, chosen, "blank");
  shown.title = ctx.speaker.say("prefer_not_hint");
  return shown;
}

function choiceField(ctx, question, id, keep, may) {
  const value = ctx.state.values[question.place];
  const texts = ctx.speaker.choices(question);
  const order = texts.map((_, at) => at);
  if (question.kind === "yesno") order.reverse(); // people expect yes first; the bits keep the survey's order
  return h(
    "div",
    { class: "choices" },
    order.map((at) => radio(id, texts[at], value === at, () => keep(at))),
    may ? preferNot(ctx, id, keep, value === null) : null,
  );
}

function listField(ctx, question, id, keep, may) {
  const value = ctx.state.values[question.place];
  const options = ctx.speaker.choices(question).map((text, at) => h("option", { value: at }, text));
  const blank = may ? h("option", { value: "blank" }, ctx.speaker.say("prefer_not")) : null;
  const none = h("option", { value: "" }, ctx.speaker.say("choose"));
  const list = h("select", { "aria-label": ctx.speaker.text(question.text) }, none, blank, options);
  list.value = value === null ? "blank" : (value ?? "");
  list.addEventListener("change", () => {
    if (list.value === "blank") return keep(null);
    return keep(list.value === "" ? undefined : Number(list.value));
  });
  return list;
}

function numberField(ctx, question, id, keep, may) {
  const say = (key, values) => ctx.speaker.say(key, values);
  const value = ctx.state.values[question.place];
  const texts = ctx.speaker.choices(question);
  const counts = h("output", { class: "hint", for: id });
  const show = () => {
    const choice = choiceOf(question, ctx.state.values[question.place]);
    counts.textContent = Number.isInteger(choice)
      ? say("number_counts", { interval: texts[choice] })
      : say("number_hint", { intervals: texts.join(" · ") });
  };
  const aloud = { "aria-label": ctx.speaker.text(question.text) };
  const input = h("input", { type: "text", inputmode: "decimal", id, autocomplete: "off", ...aloud });
  input.value = value ?? "";
  const blank = may ? preferNot(ctx, `${id}-blank`, keep, value === null, () => ((input.value = ""), show())) : null;
  input.addEventListener("input", () => {
    keep(input.value.trim());
    if (blank) blank.querySelector("input").checked = false;
    show();
  });
  show();
  return h("div", { class: "choices" }, input, blank, counts);
}
