/**
 * The user interface layer: which page is shown, what is kept, and when the layers below are asked.
 *
 * Perturbation is perturb.js (with recompute.js), the network is web.js, what is kept is vault.js; the pages are
 * questions.js, level.js, review.js and notices.js, inside frame.js.
 */

import { drawFoot, drawFrame } from "./frame.js";
import { asAgreed, levelPage, revealed } from "./level.js";
import * as notices from "./notices.js";
import { GuidanceRefused, answerId, answerSpace, drawBits, fillBlanks, oneHot, readGuidance } from "./perturb.js";
import { aboutPage, choiceOf, questionsPage } from "./questions.js";
import { Recomputed, WIDEST, startupCounts } from "./recompute.js";
import { reviewPage } from "./review.js";
import { Vault } from "./vault.js";
import { ServerRefused, SurveyServer, Unreachable, jittered, readLink, rest } from "./web.js";
import { LANGUAGES, Speaker, firstLanguage } from "./words.js";

const MEAN_WAIT = 60; // seconds between two questions for the level, on average

/** The answers are no longer on this device. */
class Gone extends Error {}

class Interface {
  constructor({ address, code }) {
    this.server = new SurveyServer(address, { memory: storage() });
    this.vault = new Vault(this.server.address);
    this.code = code;
    this.remembered = Boolean(this.server.remembered().head); // from an earlier visit
    this.turn = 0; // whatever was under way for an earlier page finds that it is no longer its turn
    this.speaker = new Speaker(firstLanguage(navigator.languages ?? ["en"], Object.keys(LANGUAGES)));
  }

  // -- from the first look to the last step ---------------------------------------------------------------------------

  async start() {
    const turn = this.show("about", notices.loading);
    this.description = await this.patiently(turn, () => this.server.describe());
    if (turn !== this.turn) return;
    const { survey, closes } = this.description;
    // Values are kept by place: a question may be called "constructor", as every object's keys may not.
    const questions = survey.questions.map((question, place) => ({ ...question, place }));
    this.survey = { ...survey, questions, label: { ...survey.label, place: questions.length } };
    this.closes = closes ?? survey.closes ?? null;
    const { floor, link, order, mu, balance } = survey;
    this.rule = { floor, link, order, mu, balance };
    this.space = answerSpace(survey.questions.map((question) => question.choices.length));
    const kept = await this.vault.get().catch(() => undefined);
    if (kept === undefined) return void this.show("about", notices.failed("failed_browser"));
    this.state = kept ?? { hash: this.description.hash, step: "about", values: {}, code: null };
    if (!survey.invitations) this.code = null; // it would only tell whose answer this is
    if (this.code) {
      Object.assign(this.state, { code: this.code });
      if (this.state.draw) this.state.draw.code = this.code; // the same bits, by another invitation
      await this.vault.put(this.state);
    }
    this.stored = kept !== null && Object.keys(kept.values).length > 0;
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
    if (this.survey.invitations && !state.code) return this.show("about", notices.failed("failed_invitation"));
    if (state.step === "level") return this.go("level");
    return this.go(state.step === "questions" ? "questions" : "about");
  }

  /** Show one of the pages that are filled in; the browser's own "back" leads through them too. */
  go(step, { remember = true } = {}) {
    if (!history.state) history.replaceState({ step }, "");
    else if (remember && history.state.step !== step) history.pushState({ step }, "");
    this.state.step = step;
    if (this.stored) this.keepSoon();
    if (step === "level") return this.guarded(() => this.openLevel());
    return this.show(step, step === "questions" ? questionsPage : aboutPage);
  }

  /** "Back" or "forward" of the browser; what is confirmed or sent is not gone back from. */
  turned(step) {
    if (this.state && !this.state.confirmed && !this.server.remembered().sent) this.go(step, { remember: false });
  }

  /** All questions are answered: chance fills what was left out, once, and everything is kept encrypted from here on. */
  answered() {
    const { state, survey, space } = this;
    const choices = survey.questions.map((question) => choiceOf(question, state.values[question.place]));
    const label = choiceOf(survey.label, state.values[survey.label.place]);
    if (JSON.stringify([choices, label]) !== JSON.stringify([state.choices, state.label])) {
      Object.assign(state, { choices, label, filled: fillBlanks(space, choices), draw: null });
    }
    this.go("level");
  }

  /** Ask for the level, read the log, recompute guidance of every level from the published counts. */
  async openLevel() {
    if (!this.state.filled) return void this.go("questions");
    const turn = this.show("level", notices.asking);
    await this.keep();
    this.preview = await this.patiently(turn, async () => {
      const asked = await this.server.inquiry();
      const history = await this.server.history(this.description, asked);
      return { asked, ...(await this.recomputed(history.entry(asked.version))) };
    });
    if (turn === this.turn) this.show("level", levelPage);
  }

  async recomputed(entry) {
    if (this.space.width > WIDEST) return { recomputed: null, why: "why_wide" };
    try {
      this.startup ??= await startupCounts(this.survey, this.description.hash);
      return { recomputed: new Recomputed(await this.server.inputs(entry), this.startup, this.rule) };
    } catch (error) {
      const unpublished = [ServerRefused, SyntaxError, TypeError, RangeError].some((kind) => error instanceof kind);
      if (unpublished) return { recomputed: null, why: "why_counts" };
      throw error;
    }
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
    if (turn === this.turn) this.show("send", reviewPage);
  }

  /** Guidance, all checks, and the one draw; two windows of one device share it, and none sends after another did. */
  prepare(asked) {
    return this.vault.alone(async () => {
      const { state, space, rule } = this;
      const kept = await this.vault.get();
      if (!kept || this.server.remembered().sent) throw new Gone();
      const answers = ({ filled, label }) => JSON.stringify([filled, label]);
      if (kept.draw && answers(kept) === answers(state) && kept.guidance.k <= state.limit) {
        Object.assign(state, { draw: kept.draw, guidance: kept.guidance, checks: kept.checks });
      }
      if (!state.draw) await this.drawOnce(asked);
      this.guidance = await readGuidance(state.guidance, space.width, state.guidance.k);
      this.found = revealed(state, this.guidance, space, rule);
      this.more = Boolean(state.confirmed) && !asAgreed(this.found, state, space);
      if (this.more) state.confirmed = false; // not what was agreed to: the respondent looks first
      await this.keep();
    });
  }

  async drawOnce(asked) {
    const { state, space } = this;
    const history = await this.server.history(this.description, asked);
    const message = await this.server.guidance(asked, space.width, history);
    const { recomputed, why } = await this.recomputed(history.entry(asked.version));
    recomputed?.check(message);
    const { v, sha256, k, width, version } = message;
    const witnesses = history.witnesses.map((witness) => ({ url: witness.url, state: witness.state }));
    const bits = drawBits(oneHot(space, state.filled), message, this.rule);
    state.guidance = { v, sha256, k, width, version };
    state.checks = { why, remembered: this.remembered, witnesses };
    state.draw = { id: answerId(), version, label: state.label, bits, ...(state.code ? { code: state.code } : {}) };
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
          if (this.overdue()) this.description = await this.server.describe();
          if (turn === this.turn && this.description.state === "closed") return void this.show("send", notices.closed);
          const asked = await this.server.inquiry();
          if (turn !== this.turn) return;
          this.waiting = { k: asked.k, since: new Date(), offline: false };
          if (asked.k <= this.state.limit) {
            await this.prepare(asked);
            if (turn !== this.turn) return;
            if (this.more) this.show("send", reviewPage);
            else await this.deliver();
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
    clearTimeout(this.soon);
    await this.vault.clear();
    this.server.forget();
    this.stored = false;
    this.state = { hash: this.description.hash, step: "about", values: {}, code: this.code };
    this.show("about", notices.deleted);
  }

  /** Another window has sent or deleted the answers. */
  async gone() {
    await this.vault.clear();
    return this.start();
  }

  // -- means ----------------------------------------------------------------------------------------------------------

  async keep() {
    clearTimeout(this.soon);
    await this.vault.put({ ...this.state, language: this.speaker.language });
    this.stored = true;
  }

  /** Keep what is being typed once there is a pause, so that a reload loses nothing. */
  keepSoon() {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.guarded(() => this.keep().then(() => drawFoot(this))), 400);
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
      if (error instanceof Gone) return this.gone();
      if (error instanceof GuidanceRefused) return this.show("send", notices.refused(error));
      if (error instanceof ServerRefused) {
        this.description = await this.server.describe().catch(() => this.description);
        return this.show("send", this.description.state === "closed" ? notices.closed : notices.server(error));
      }
      console.error(error.name);
      return this.show("send", notices.failed("failed_unknown"));
    }
  }

  /** Whether the closing day may be over; the server knows. */
  overdue() {
    return this.closes !== null && new Date().toISOString().slice(0, 10) > this.closes;
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
    drawFrame(this, ...this.page, fresh);
  }

  speak(language) {
    this.speaker = new Speaker(language, this.offered()[0]);
    this.draw();
    document.querySelector("header select")?.focus();
  }
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
  addEventListener("popstate", (event) => page.turned(event.state?.step ?? "about"));
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the fragment names the survey
    document.querySelector("main").focus();
  });
  return page.guarded(() => page.start());
}

open();
