/**
 * The user interface layer: which page is shown, what is kept, and when the layers below are asked.
 *
 * Perturbation is perturb.js (with recompute.js), the network is web.js, what is kept is vault.js; the pages are
 * questions.js, level.js, review.js and notices.js.
 */

import { button, h } from "./element.js";
import { levelPage, revealed } from "./level.js";
import * as notices from "./notices.js";
import { GuidanceRefused, answerId, answerSpace, drawBits, fillBlanks, oneHot, readGuidance } from "./perturb.js";
import { aboutPage, choiceOf, questionsPage } from "./questions.js";
import { Recomputed, WIDEST } from "./recompute.js";
import { reviewPage } from "./review.js";
import { Vault } from "./vault.js";
import { ServerRefused, SurveyServer, Unreachable, jittered } from "./web.js";
import { LANGUAGES, Speaker, firstLanguage, languageName } from "./words.js";

const STEPS = ["about", "questions", "level", "send"];
const MEAN_WAIT = 60; // seconds between two questions for the level, on average

/** The link's fragment -> {address, code}. A fragment never reaches a server; so neither does an invitation. */
export function readLink(fragment, page) {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const survey = parts.get("survey") ?? "";
  const whole = /^https:\/\/|^http:\/\/(127\.0\.0\.1|localhost)[:/]/.test(survey);
  if (!whole && !/^[\w-]+$/.test(survey)) return null;
  return { address: whole ? survey : new URL(`../api/v1/surveys/${survey}`, page).href, code: parts.get("code") };
}

class Interface {
  constructor({ address, code }) {
    this.server = new SurveyServer(address, { memory: storage() });
    this.vault = new Vault(this.server.address);
    this.code = code;
    this.turn = 0; // whatever was under way for an earlier page finds that it is no longer its turn
    this.speaker = new Speaker(firstLanguage(navigator.languages ?? ["en"], Object.keys(LANGUAGES)));
  }

  // -- from the first look to the last step ---------------------------------------------------------------------------

  async start() {
    const turn = this.show("about", notices.loading);
    this.description = await this.patiently(turn, () => this.server.describe());
    if (turn !== this.turn) return;
    const { survey, closes } = this.description;
    this.survey = { ...survey, label: { ...survey.label, choices: survey.label.choices ?? survey.label.classes } };
    this.closes = closes ?? survey.closes ?? null;
    this.rule = { floor: survey.floor, link: survey.link, order: survey.order };
    this.space = answerSpace(survey.questions.map((question) => question.choices.length));
    const kept = await this.vault.get();
    this.state = kept ?? { hash: this.description.hash, step: "about", values: {}, code: this.code };
    this.stored = kept !== null;
    const wanted = this.state.language ? [this.state.language] : (navigator.languages ?? []);
    this.speaker = new Speaker(firstLanguage(wanted, this.offered()), this.offered()[0]);
    this.resume();
  }

  resume() {
    const { state } = this;
    if (this.description.state === "closed") return this.show("about", notices.closed);
    if (state.hash !== this.description.hash) return this.show("about", notices.changed);
    if (state.confirmed && state.draw) return this.deliver();
    if (state.confirmed) return this.wait();
    if (this.server.remembered().sent && !this.stored) return this.show("send", notices.already);
    if (state.step === "level") return this.go("level");
    return this.show(state.step === "questions" ? "questions" : "about", state.step === "questions" ? questionsPage : aboutPage);
  }

  go(step) {
    this.state.step = step;
    if (step === "level") return this.guarded(() => this.openLevel());
    return this.show(step, step === "questions" ? questionsPage : aboutPage);
  }

  /** All questions are answered: chance fills what was left out, once, and everything is kept encrypted from here on. */
  answered() {
    const { state, survey, space } = this;
    const choices = survey.questions.map((question) => choiceOf(question, state.values[question.name]));
    const label = choiceOf(survey.label, state.values[survey.label.name]);
    if (JSON.stringify([choices, label]) !== JSON.stringify([state.choices, state.label])) {
      Object.assign(state, { choices, label, filled: fillBlanks(space, choices), draw: null });
    }
    this.go("level");
  }

  /** Ask for the level, read the log, recompute guidance of every level from the published counts. */
  async openLevel() {
    const turn = this.show("level", notices.asking);
    await this.keep();
    this.preview = await this.patiently(turn, async () => {
      const asked = await this.server.inquiry();
      const history = await this.history(asked);
      return { asked, ...(await this.recomputed(history.entry(asked.version))) };
    });
    if (turn === this.turn) this.show("level", levelPage);
  }

  async recomputed(entry) {
    if (this.space.width > WIDEST) return { recomputed: null, why: "why_wide" };
    try {
      return { recomputed: new Recomputed(await this.server.inputs(entry), this.rule) };
    } catch (error) {
      if (error instanceof ServerRefused || error instanceof TypeError || error instanceof RangeError) return { recomputed: null, why: "why_counts" };
      throw error;
    }
  }

  async history(asked) {
    const first = !this.server.remembered().head;
    const history = await this.server.history(this.description, asked);
    this.remembered = this.remembered || !first;
    return history;
  }

  /** The limit is chosen. Now, and only now, and without telling the limit, the second round may begin. */
  limited() {
    return this.guarded(async () => {
      const turn = this.show("send", notices.asking);
      const { state } = this;
      if (state.draw && state.guidance.k > state.limit) state.draw = null;
      await this.keep();
      const asked = state.draw ? null : await this.patiently(turn, () => this.server.inquiry());
      if (turn !== this.turn) return null;
      if (asked && asked.k > state.limit) return this.confirmed();
      return this.review(turn, asked);
    });
  }

  async review(turn, asked) {
    await this.patiently(turn, () => this.prepare(asked));
    if (turn !== this.turn) return;
    this.found = revealed(this.state, this.guidance, this.space, this.rule);
    this.show("send", reviewPage);
  }

  /** Guidance, all checks, and the one draw; two windows of one device share it. */
  prepare(asked) {
    return this.vault.alone(async () => {
      const kept = await this.vault.get();
      const same = kept && JSON.stringify(kept.filled) === JSON.stringify(this.state.filled) && kept.label === this.state.label;
      if (same && kept.draw && this.state.draw !== null) Object.assign(this.state, kept, { limit: this.state.limit });
      const { state, space, rule } = this;
      if (!state.draw) {
        const history = await this.history(asked);
        const message = await this.server.guidance(asked, space.width, history);
        const { recomputed, why } = await this.recomputed(history.entry(asked.version));
        recomputed?.check(message);
        const bits = drawBits(oneHot(space, state.filled), message, rule);
        const { v, sha256, k, width, version } = message;
        state.guidance = { v, sha256, k, width, version };
        state.checks = { why, remembered: Boolean(this.remembered), witnesses: history.witnesses.map(({ url, state: s }) => ({ url, state: s })) };
        state.draw = { id: answerId(), version, label: state.label, bits, ...(state.code ? { code: state.code } : {}) };
        await this.keep();
      }
      this.guidance = await readGuidance(state.guidance, space.width, state.guidance.k);
    });
  }

  /** The respondent said "send", or "wait, then send". */
  confirmed() {
    return this.guarded(async () => {
      this.state.confirmed = true;
      await this.keep();
      return this.state.draw ? this.deliver() : this.wait();
    });
  }

  wait() {
    return this.guarded(async () => {
      this.waiting = { k: null, since: null, offline: false };
      const turn = this.show("send", notices.waiting);
      for (;;) {
        try {
          const asked = await this.server.inquiry();
          if (turn !== this.turn) return;
          this.waiting = { k: asked.k, since: new Date(), offline: false };
          if (asked.k <= this.state.limit) {
            await this.prepare(asked);
            if (turn === this.turn) await this.deliver();
            return;
          }
        } catch (error) {
          if (!(error instanceof Unreachable)) throw error;
          this.waiting = { ...this.waiting, offline: true };
        }
        if (turn !== this.turn) return;
        this.draw();
        await rest(jittered(MEAN_WAIT));
        if (turn !== this.turn) return;
      }
    });
  }

  /** Send the drawn bits until the server says that it has them: the same bits, under the same id. */
  deliver() {
    return this.guarded(async () => {
      const turn = this.show("send", notices.sending);
      await this.patiently(turn, () => this.server.send(this.state.draw));
      if (turn !== this.turn) return;
      this.server.remember({ sent: true });
      await this.vault.clear();
      this.stored = false;
      this.state = { hash: this.description.hash, step: "about", values: {}, code: null };
      this.show("send", notices.done);
    });
  }

  async forget() {
    await this.vault.clear();
    this.server.forget();
    this.stored = false;
    this.state = { hash: this.description.hash, step: "about", values: {}, code: this.code };
    this.show("about", notices.deleted);
  }

  // -- means ----------------------------------------------------------------------------------------------------------

  async keep() {
    await this.vault.put({ ...this.state, language: this.speaker.language });
    this.stored = true;
  }

  /** Try until the server can be reached or another page is shown. */
  async patiently(turn, work) {
    for (let attempt = 1; ; attempt++) {
      try {
        const result = await work();
        this.offline = false;
        return result;
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
        if (turn !== this.turn) return null;
        this.offline = true;
        this.draw();
        await rest(error.seconds + jittered(Math.min(4 * 2 ** attempt, MEAN_WAIT)));
        if (turn !== this.turn) return null;
      }
    }
  }

  /** Refusals and surprises become pages, never silence. */
  async guarded(work) {
    try {
      return await work();
    } catch (error) {
      if (error instanceof GuidanceRefused) return this.show("send", notices.refused(error));
      if (error instanceof ServerRefused) {
        this.description = await this.server.describe().catch(() => this.description);
        return this.show("send", this.description.state === "closed" ? notices.closed : notices.server(error));
      }
      console.error(error.name);
      return this.show("send", notices.failed("failed_unknown"));
    }
  }

  offered() {
    const { languages, language } = this.survey;
    const all = languages?.length ? languages : [language ?? "en"];
    return language ? [language, ...all.filter((code) => code !== language)] : all;
  }

  show(step, page) {
    this.turn += 1;
    this.offline = false;
    this.page = [step, page];
    this.draw(true);
    return this.turn;
  }

  draw(fresh = false) {
    const [step, page] = this.page;
    document.documentElement.lang = this.speaker.spoken;
    document.title = this.survey ? `${this.survey.name}: ${this.speaker.say(`step_${step}`)}` : "Survey";
    document.querySelector(".skip").textContent = this.speaker.say("skip");
    document.querySelector("header").replaceChildren(...this.head(step));
    document.querySelector("main").replaceChildren(...page(this).flat(Infinity).filter(Boolean));
    document.querySelector("footer").replaceChildren(...this.foot());
    const heading = document.querySelector("main h1");
    document.getElementById("status").textContent = this.offline ? this.speaker.say("offline_load") : (heading?.textContent ?? "");
    if (fresh && this.survey) {
      scrollTo(0, 0);
      heading?.focus({ preventScroll: true });
    }
  }

  head(step) {
    const steps = STEPS.map((name) => h("li", { "aria-current": name === step ? "step" : null }, this.speaker.say(`step_${name}`)));
    const offered = this.survey ? this.offered() : [];
    const list = h(
      "select",
      { "aria-label": this.speaker.say("language"), onchange: () => this.speak(list.value) },
      offered.map((code) => h("option", { value: code, lang: code }, languageName(code))),
    );
    list.value = this.speaker.language;
    return [
      h("div", { class: "top" }, h("span", { class: "brand" }, this.survey?.name ?? ""), offered.length > 1 ? list : ""),
      this.survey ? h("ol", { class: "steps", "aria-label": this.speaker.say("steps") }, steps) : "",
    ];
  }

  foot() {
    if (!this.stored) return [];
    return [h("p", {}, this.speaker.say("kept")), button(this.speaker.say("delete"), () => this.forget(), "quiet")];
  }

  speak(language) {
    this.speaker = new Speaker(language, this.offered()[0]);
    this.draw();
    document.querySelector("header select")?.focus();
  }
}

/** Wait some seconds, or until the line is back; then a little longer, so that not everybody comes at once. */
async function rest(seconds) {
  await new Promise((wake) => {
    setTimeout(wake, 1000 * seconds);
    addEventListener("online", () => setTimeout(wake, 1000 * jittered(1)), { once: true });
  });
}

function storage() {
  try {
    return globalThis.localStorage;
  } catch {
    return null;
  }
}

async function open() {
  const link = readLink(location.hash, location.href);
  const page = new Interface(link ?? { address: "" });
  const able = globalThis.crypto?.subtle && globalThis.indexedDB && globalThis.isSecureContext;
  if (!link) return page.show("about", notices.failed("failed_address"));
  if (!able) return page.show("about", notices.failed("failed_browser"));
  if (link.code) history.replaceState(null, "", location.hash.replace(/&?code=[^&]*/, "")); // not into bookmarks
  addEventListener("hashchange", () => location.reload());
  return page.guarded(() => page.start());
}

open();
