/**
 * How the interface behaves whatever page it shows: one page at a time, patience with the line, what is kept on the
 * device, and that refusals and surprises become pages.
 */

import { drawFoot, drawFrame } from "./frame.js";
import * as notices from "./notices.js";
import { GuidanceRefused } from "./perturb.js";
import { NotKept, Vault } from "./vault.js";
import { ServerRefused, SurveyServer, Unreachable, jittered, rest } from "./web.js";

export const MEAN_WAIT = 60; // seconds between two questions for the level, on average

/** Another window has sent the answers, deleted them, or is sending its own. */
export class Gone extends Error {}

/** Another page was asked for meanwhile: what was under way for this one ends. */
export class Overtaken extends Error {}

/** Bits that were agreed to and drawn are sent, by whichever window; nothing else takes their place. */
export const onItsWay = (kept) => Boolean(kept?.confirmed && kept.draw);

export class Conduct {
  constructor({ address, hash, witnesses }) {
    this.server = new SurveyServer(address, { memory: storage(), hash, witnesses });
    this.vault = new Vault(this.server.address);
    this.turn = 0; // of the page that is shown
  }

  // -- pages ----------------------------------------------------------------------------------------------------------

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

  /** End what was under way for a page that is no longer shown. */
  still(turn) {
    if (turn !== this.turn) throw new Overtaken();
  }

  // -- what is kept ---------------------------------------------------------------------------------------------------

  /** Nothing answered yet. */
  blank(code = null) {
    return { hash: this.description.hash, step: "about", values: {}, code };
  }

  /** Keep the answers of this window, unless another one has sent or deleted them, or is sending its own. */
  async keep() {
    clearTimeout(this.soon);
    const { state } = this;
    await this.vault.change((kept) => {
      if (state !== this.state) throw new Overtaken(); // deleted meanwhile
      const elsewhere = onItsWay(kept) && !(state.confirmed && kept.draw.id === state.draw?.id);
      if (elsewhere || (this.stored && !kept) || this.server.remembered().sent) throw new Gone();
      return { ...state, language: this.speaker.language };
    });
    this.stored = true;
  }

  /** Keep what is being typed once there is a pause, so that a reload loses nothing. */
  keepSoon() {
    clearTimeout(this.soon);
    const later = (error) => {
      if (!(error instanceof NotKept)) throw error; // nothing is lost yet: it is tried again before anything is sent
    };
    this.soon = setTimeout(() => this.guarded(() => this.keep().then(() => drawFoot(this), later)), 400);
  }

  // -- the line, and surprises ----------------------------------------------------------------------------------------

  /** Try until the server can be reached or another page is shown. */
  async patiently(turn, work) {
    for (let attempt = 1; ; attempt++) {
      try {
        const result = await work();
        this.still(turn);
        this.offline = false;
        return result;
      } catch (error) {
        this.still(turn);
        if (!(error instanceof Unreachable)) throw error;
        this.offline = true;
        this.draw();
        await rest(error.seconds + jittered(Math.min(4 * 2 ** attempt, MEAN_WAIT)));
        this.still(turn);
      }
    }
  }

  /** Refusals and surprises become pages, never silence. */
  async guarded(work) {
    try {
      return await work();
    } catch (error) {
      if (error instanceof Overtaken) return null;
      if (error instanceof Gone) return this.guarded(() => this.gone());
      if (error instanceof NotKept) return this.show("send", notices.unkept);
      if (error instanceof GuidanceRefused) return this.show("send", notices.refused(error));
      if (error instanceof ServerRefused) {
        const { turn } = this;
        const { state } = await this.server.describe().catch(() => ({}));
        if (turn !== this.turn) return null;
        if (state && this.description) this.description.state = state;
        return this.show("send", state === "closed" ? notices.closed : notices.server(error));
      }
      console.error(error.name);
      return this.show("send", notices.failed("failed_unknown"));
    }
  }
}

function storage() {
  try {
    return globalThis.localStorage;
  } catch {
    return null;
  }
}
