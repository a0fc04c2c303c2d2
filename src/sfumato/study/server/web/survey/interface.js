/**
 * The user interface layer: which page is shown, what is kept, and when the layers below are asked.
 *
 * Perturbation is perturb.js (with recompute.js), the network is web.js, what is kept is vault.js; the pages are
 * questions.js, level.js, review.js and notices.js, inside frame.js; conduct.js is what holds for all of them.
 */

import { Conduct, Gone, MEAN_WAIT, onItsWay } from "./conduct.js";
import { exchange, exchangeSoon } from "./invitation.js";
import { asAgreed, levelPage, revealed } from "./level.js";
import * as notices from "./notices.js";
import { answerId, answerSpace, drawBits, fillBlanks, oneHot, readGuidance } from "./perturb.js";
import { aboutPage, choiceOf, questionsPage } from "./questions.js";
import { Recomputed, canRecompute, startupCounts } from "./recompute.js";
import { reviewPage } from "./review.js";
import { ServerRefused, Unreachable, jittered, readLink, rest } from "./web.js";
import { LANGUAGES, Speaker, firstLanguage } from "./words.js";

class Interface extends Conduct {
  constructor(link) {
    super(link);
    this.code = link.code;
    this.remembered = Boolean(this.server.remembered().head); // from an earlier visit
    this.speaker = new Speaker(firstLanguage(navigator.languages ?? ["en"], Object.keys(LANGUAGES)));
  }

  // -- from the first look to the last step ---------------------------------------------------------------------------

  async start() {
    const turn = this.show("about", notices.loading);
    this.description = await this.patiently(turn, () => this.server.describe());
    const { survey, closes } = this.description;
    // Values are kept by place: a question may be called "constructor", as every object's keys may not.
    const questions = survey.questions.map((question, place) => ({ ...question, place }));
    this.survey = { ...survey, questions, label: { ...survey.label, place: questions.length } };
    this.closes = closes ?? survey.closes ?? null;
    const { floor, link, order, mu, balance, k } = survey;
    this.rule = { floor, link, order, mu, balance, k };
    this.space = answerSpace(survey.questions.map((question) => question.choices.length));
    const kept = await this.lookUp().catch(() => undefined);
    this.still(turn);
    if (kept === undefined) return void this.show("about", notices.failed("failed_browser"));
    this.state = kept ?? this.blank();
    this.stored = kept !== null && Object.keys(kept.values).length > 0;
    const wanted = this.state.language ? [this.state.language] : (navigator.languages ?? []);
    this.speaker = new Speaker(firstLanguage(wanted, this.offered()), this.offered()[0]);
    this.resume();
  }

  /** What is kept of earlier visits, with the invitation of this one. */
  lookUp() {
    if (!this.survey.invitations) this.code = null; // it would only tell whose answer this is
    if (!this.code || this.server.remembered().sent) return this.vault.get();
    return this.vault.change((kept) => (kept?.ticket?.signed ? kept : { ...(kept ?? this.blank()), code: this.code }));
  }

  resume() {
    const { state } = this;
    if (onItsWay(state) && state.hash === this.description.hash) return this.deliver();
    if (this.description.state === "closed") return this.show("about", notices.closed);
    if (state.hash !== this.description.hash) return this.show("about", notices.changed);
    if (state.confirmed) return this.wait();
    if (this.server.remembered().sent && !this.stored) return this.show("send", notices.already);
    if (this.survey.invitations && !state.code && !state.ticket?.signed) return this.show("about", notices.failed("failed_invitation"));
    if (state.step === "level") return this.go("level");
    return this.go(state.step === "questions" ? "questions" : "about");
  }

  /** Show one of the pages that are filled in; the browser's own "back" leads through them too. */
  go(step, { remember = true } = {}) {
    if (!history.state) history.replaceState({ step }, "");
    else if (remember && history.state.step !== step) history.pushState({ step }, "");
    this.state.step = step;
    if (this.stored) this.keepSoon();
    if (step === "questions") this.guarded(() => exchangeSoon(this));
    if (step === "level") return this.guarded(() => this.openLevel());
    return this.show(step, step === "questions" ? questionsPage : aboutPage);
  }

  /** "Back" or "forward" of the browser; what is confirmed or sent is not gone back from, nor what is over. */
  turned(step) {
    const { state, description } = this;
    const over = !state || description.state === "closed" || state.hash !== description.hash;
    if (!over && !state.confirmed && !this.server.remembered().sent) this.go(step === "review" ? "level" : step, { remember: false });
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
    await this.patiently(turn, () => exchange(this));
    const preview = await this.patiently(turn, async () => {
      const asked = await this.server.inquiry();
      const history = await this.server.history(this.description, asked);
      return { asked, ...(await this.recomputed(history.entry(asked.version))) };
    });
    this.preview = preview;
    this.show("level", levelPage);
  }

  async recomputed(entry) {
    const small = canRecompute(this.space.width, this.survey.label.choices.length);
    if (!small) return { recomputed: null, why: "why_wide" };
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
      this.still(turn);
      if (asked && asked.k > state.limit) return this.confirmed();
      await this.patiently(turn, () => this.prepare(turn, asked));
      if (history.state?.step !== "review") history.pushState({ step: "review" }, ""); // "back" leads to the level
      return this.show("send", reviewPage);
    });
  }

  /** Guidance, all checks, and the one draw; two windows of one device share it, and none sends after another did. */
  prepare(turn, asked) {
    return this.vault.alone(async () => {
      const { state, space, rule } = this;
      const kept = await this.vault.get();
      this.still(turn);
      if (!kept || onItsWay(kept) || this.server.remembered().sent) throw new Gone();
      const answers = ({ filled, label }) => JSON.stringify([filled, label]);
      if (kept.draw && answers(kept) === answers(state) && kept.guidance.k <= state.limit) {
        Object.assign(state, { draw: kept.draw, guidance: kept.guidance, checks: kept.checks });
      }
      if (!state.draw) await this.drawOnce(turn, asked);
      this.guidance = await readGuidance(state.guidance, space.width, state.guidance.k);
      this.still(turn);
      this.found = revealed(state, this.guidance, space, rule);
      this.more = Boolean(state.confirmed) && !asAgreed(this.found, state, space);
      if (this.more) state.confirmed = false; // not what was agreed to: the respondent looks first
      await this.keep();
    });
  }

  async drawOnce(turn, asked) {
    const { state, space } = this;
    const history = await this.server.history(this.description, asked);
    const message = await this.server.guidance(asked, space.width, history);
    const { recomputed, why } = await this.recomputed(history.entry(asked.version));
    this.still(turn); // the answers and the limit are still those of the page that asked
    recomputed?.check(message);
    const { v, sha256, k, width, version } = message;
    const witnesses = history.witnesses.map(({ url, state: said, own }) => ({ url, state: said, own }));
    const bits = drawBits(oneHot(space, state.filled), message, this.rule);
    state.guidance = { v, sha256, k, width, version };
    state.checks = { why, remembered: this.remembered, witnesses };
    const { name = answerId(), signed } = state.ticket ?? {};
    state.draw = { id: name, version, label: state.label, bits, ...(signed ? { ticket: signed } : {}) };
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
          this.still(turn);
          if (this.description.state === "closed") return void this.show("send", notices.closed);
          const asked = await this.server.inquiry();
          this.still(turn);
          this.waiting = { k: asked.k, since: new Date(), offline: false };
          if (asked.k <= this.state.limit) {
            await this.prepare(turn, asked);
            this.still(turn);
            if (this.more) this.show("send", reviewPage);
            else await this.deliver();
            return;
          }
        } catch (error) {
          this.still(turn);
          if (!(error instanceof Unreachable)) throw error;
          this.waiting = { ...this.waiting, offline: true };
        }
        this.draw();
        await rest(jittered(MEAN_WAIT));
        this.still(turn);
      }
    });
  }

  /** Send the drawn bits until the server says that it has them: the same bits, under the same id. */
  deliver() {
    return this.guarded(async () => {
      const turn = this.show("send", notices.sending);
      const { draw } = this.state;
      await this.patiently(turn, async () => {
        const kept = await this.vault.get();
        if (kept?.draw?.id !== draw.id) throw new Gone(); // deleted in another window is deleted here too
        await this.server.send(draw);
      });
      clearTimeout(this.soon);
      // A device that cannot remember this keeps the bits: the next visit brings the same ones, not others.
      if (this.server.remember({ sent: true })) {
        await this.vault.clear();
        this.stored = false;
      }
      this.state = this.blank();
      this.show("send", notices.done);
    });
  }

  forget() {
    return this.guarded(async () => {
      clearTimeout(this.soon);
      const { ticket } = this.state;
      this.state = { ...this.blank(this.code), ...(ticket ? { ticket } : {}) };
      this.show("about", notices.deleting); // whatever is under way has nothing to keep or to send any more
      await this.vault.clear();
      if (ticket) await this.vault.change(() => this.state); // it says nothing, and the invitation gives no other
      this.server.forget();
      this.stored = false;
      this.show("about", notices.deleted);
    });
  }

  async gone() {
    if (this.server.remembered().sent) await this.vault.clear();
    return this.start();
  }

  /** Storage did not work: try to keep what this window still holds, or look at what is kept. */
  again() {
    return this.state && Object.keys(this.state.values).length ? this.go("questions") : location.reload();
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

  speak(language) {
    this.speaker = new Speaker(language, this.offered()[0]);
    this.draw();
    document.querySelector("header select")?.focus();
  }
}

async function open() {
  const link = readLink(location.hash, location.href);
  const page = new Interface(link ?? { address: "" });
  const able = globalThis.crypto?.subtle && globalThis.indexedDB && navigator.locks && globalThis.isSecureContext;
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
