/**
 * The web layer: the protocol with the server (docs/survey-protocol.md), and who else says what the server's log says.
 *
 * It sends nothing but what the protocol names: no cookie, no referrer, and never the respondent's own limit.
 */

import { GuidanceRefused, readGuidance, sha256, uniforms } from "./perturb.js";

const PATIENCE = 20_000; // milliseconds for one request
const TAIL = 100; // versions of the log that a newcomer reads
const LONGEST_LOG = 1e6; // versions: a log that never ends keeps the page busy for ever

/** The server cannot be reached, or asks to come back later. */
export class Unreachable extends Error {
  constructor(seconds = 0) {
    super("unreachable");
    this.name = "Unreachable";
    this.seconds = seconds;
  }
}

/** The server answered that this cannot be done: {status, code, message}. */
export class ServerRefused extends Error {
  constructor(status, code, message) {
    super(message);
    this.name = "ServerRefused";
    this.status = status;
    this.code = code;
  }
}

/** Seconds to wait before asking again: a floor and an exponential part, so that requests form no pattern. */
export function jittered(mean, random = uniforms(1)[0]) {
  return Math.min(mean * (0.2 - 0.8 * Math.log(1 - random)), 5 * mean);
}

/** An answer that began and did not end. */
function brokenOff() {
  throw new Unreachable();
}

const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

/** Wait some seconds, or until the line is back; then a little longer, so that not everybody comes at once. */
export async function rest(seconds) {
  const over = new AbortController();
  await new Promise((wake) => {
    setTimeout(wake, 1000 * seconds);
    addEventListener("online", () => setTimeout(wake, 1000 * jittered(1)), { signal: over.signal });
  });
  over.abort();
}

const SECURE = /^https:\/\/|^http:\/\/(127\.0\.0\.1|localhost)[:/]/;

/**
 * The link's fragment -> {address, code, hash, witnesses}, or null. A fragment never reaches a server; so neither does
 * an invitation. `hash` is that of the survey the link names: whoever gave the link vouches for it, not the server.
 */
export function readLink(fragment, page) {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const survey = parts.get("survey") ?? "";
  const hash = parts.get("hash")?.replace(/^sha256:/, "") ?? null;
  const witnesses = parts.getAll("witness");
  const whole = SECURE.test(survey);
  if (!whole && !/^[\w-]+$/.test(survey)) return null;
  if (hash !== null && !/^[0-9a-f]{64}$/.test(hash)) return null; // half a hash would be checked by nobody
  if (!witnesses.every((url) => SECURE.test(url))) return null;
  const address = whole ? survey : new URL(`../api/v1/surveys/${survey}`, page).href;
  return { address, code: parts.get("code"), hash: hash && `sha256:${hash}`, witnesses };
}

export class SurveyServer {
  /**
   * `address` is the survey's own: .../api/v1/surveys/ID. `memory` remembers heads (localStorage, or null). `hash` and
   * `witnesses` are what the link names.
   */
  constructor(address, { memory = null, hash = null, witnesses = [], fetch = globalThis.fetch.bind(globalThis) } = {}) {
    this.address = address.replace(/\/+$/, "");
    this.linked = hash;
    this.chosen = witnesses;
    this.memory = memory;
    this.fetch = fetch;
  }

  // -- the protocol's messages ----------------------------------------------------------------------------------------

  /** What is asked, by whom, until when: read from the very text whose hash the log and the witnesses know. */
  async describe() {
    const description = await this.json("");
    const { file, hash } = description;
    if (typeof file !== "string" || `sha256:${await sha256(file)}` !== hash) throw new GuidanceRefused("survey_hash");
    if (this.linked && this.linked !== hash) throw new GuidanceRefused("survey_link");
    return { ...description, survey: JSON.parse(file) };
  }

  /** Round 1: the level k* that is asked for at present, and nothing else. */
  inquiry() {
    return this.json("/inquiry");
  }

  /** Round 2: guidance of the version that the inquiry named, checked in itself and against the log. */
  async guidance(asked, width, history) {
    const message = await this.json("/ready", { version: asked.version });
    if (message.version !== asked.version) throw new GuidanceRefused("guidance_version");
    const guidance = await readGuidance(message, width, asked.k);
    const entry = history.entry(asked.version);
    if (!entry || entry.sha256 !== message.sha256 || entry.k !== message.k) throw new GuidanceRefused("guidance_log");
    return { ...guidance, version: asked.version, v: message.v, sha256: message.sha256 };
  }

  /** The counts from which a version was computed; they must be those that the log promised. */
  async inputs(entry) {
    const text = await this.text(`/log/${entry.version}/inputs`);
    if ((await sha256(text)) !== entry.inputs_sha256) throw new GuidanceRefused("inputs_hash");
    return JSON.parse(text);
  }

  /** Use up an invitation for the signature of a blinded name; the same two give the same signature again. */
  async exchange(code, blinded) {
    const { signature } = await this.json("/tickets", { code, blinded });
    return signature;
  }

  /** Send one answer: 201, or 200 when the server already had it. */
  async send({ id, version, label, bits, ticket }) {
    const answer = { id, version, label, bits, ...(ticket ? { ticket } : {}) };
    const receipt = await this.json("/answers", answer, { tries: 1 });
    if (receipt.id !== id) throw new ServerRefused(200, "receipt", "The receipt names another answer.");
  }

  // -- the log --------------------------------------------------------------------------------------------------------

  /** The log as far as it is needed, checked: chain, what this device remembers, what witnesses saw. */
  async history(description, asked) {
    const remembered = this.remembered().head ?? null;
    const named = [...new Set([...this.chosen, ...(description.survey.witnesses ?? [])])];
    const witnesses = await Promise.all(named.map((url) => this.witness(url)));
    const seen = witnesses.filter((w) => w.survey === description.hash).map((w) => w.version);
    const from = Math.max(1, Math.min(asked.version - TAIL + 1, remembered?.version ?? Infinity, ...seen));
    const entries = await this.entries(from);
    await checkChain(entries, from, description.survey.origin ?? description.hash);
    const history = new History(entries, witnesses);
    if (history.entry(asked.version)?.hash !== asked.head) throw new GuidanceRefused("log_head");
    if (history.entry(asked.version).k !== asked.k) throw new GuidanceRefused("log_level");
    if (remembered && history.entry(remembered.version)?.hash !== remembered.hash) {
      throw new GuidanceRefused("log_remembered", `version ${remembered.version}`);
    }
    for (const witness of witnesses) {
      if (witness.state === "silent") continue;
      const agrees = witness.survey === description.hash && history.entry(witness.version)?.hash === witness.hash;
      if (!agrees) throw new GuidanceRefused("log_witness", witness.url);
      witness.state = "agrees";
    }
    const { version, hash } = history.last;
    const newer = (this.remembered().head?.version ?? 0) > version; // seen meanwhile, in another window
    if (!newer) this.remember({ head: { version, hash } });
    return history;
  }

  async entries(from) {
    const all = [];
    for (;;) {
      const { entries } = await this.json(`/log?after=${from + all.length - 1}`);
      if (!Array.isArray(entries)) throw new GuidanceRefused("log_chain");
      if (!entries.length) return all;
      const next = from + all.length;
      if (entries[0].version !== next || next > LONGEST_LOG) throw new GuidanceRefused("log_chain", `version ${next}`);
      all.push(...entries);
    }
  }

  async witness(url) {
    try {
      const { survey, version, hash } = await this.request(url, {}, 1).then((response) => response.json());
      return { url, survey, version, hash, state: "asked", own: !this.chosen.includes(url) };
    } catch {
      return { url, state: "silent" };
    }
  }

  // -- memory of this device (nothing of the answers) -----------------------------------------------------------------

  remembered() {
    try {
      return JSON.parse(this.memory?.getItem(`sfumato ${this.address}`) ?? "{}") ?? {};
    } catch {
      return {};
    }
  }

  /** Whether this device could remember it: it may have no room left, or be forbidden to. */
  remember(facts) {
    try {
      this.memory.setItem(`sfumato ${this.address}`, JSON.stringify({ ...this.remembered(), ...facts }));
      return true;
    } catch {
      return false;
    }
  }

  forget() {
    this.memory?.removeItem(`sfumato ${this.address}`);
  }

  // -- requests -------------------------------------------------------------------------------------------------------

  async json(path, body = undefined, { tries = 3 } = {}) {
    const post = () => ({ method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } });
    const response = await this.request(this.address + path, body === undefined ? {} : post(), tries);
    return response.json().catch(brokenOff);
  }

  async text(path) {
    const response = await this.request(this.address + path, {}, 3);
    return response.text().catch(brokenOff);
  }

  /** One request, tried again after failures of the line or the server; a clear refusal is not tried again. */
  async request(url, how, tries) {
    for (let attempt = 1; ; attempt++) {
      const response = await this.once(url, how);
      if (response?.ok) return response;
      if (response && response.status < 500 && response.status !== 429) {
        const said = await response.json().catch(() => ({}));
        throw new ServerRefused(response.status, said.error ?? "refused", said.message ?? `HTTP ${response.status}`);
      }
      const later = Math.min(Number(response?.headers.get("retry-after")) || 0, 600);
      if (attempt >= tries || later > 5) throw new Unreachable(later);
      await pause(later + jittered(0.5 * 2 ** attempt));
    }
  }

  async once(url, how) {
    const limits = { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store", redirect: "error" };
    try {
      return await this.fetch(url, { ...limits, ...how, signal: AbortSignal.timeout(PATIENCE) });
    } catch {
      return null;
    }
  }
}

/** Checked entries of the log, by version. */
class History {
  constructor(entries, witnesses) {
    this.entries = entries;
    this.witnesses = witnesses;
    this.last = entries.at(-1);
  }

  entry(version) {
    return this.entries.find((entry) => entry.version === version) ?? null;
  }
}

/** Every entry holds the hash of the one before; the first holds the hash of the survey file. */
export async function checkChain(entries, first, survey) {
  if (!entries.length) throw new GuidanceRefused("log_chain");
  let previous = first === 1 ? survey : entries[0].previous;
  let answers = 0;
  for (const [at, entry] of entries.entries()) {
    const line = [entry.version, entry.k, entry.sha256, entry.inputs_sha256, entry.answers, entry.previous].join("|");
    const whole = entry.version === first + at && entry.previous === previous && entry.answers >= answers;
    if (!whole || (await sha256(line)) !== entry.hash) throw new GuidanceRefused("log_chain", `version ${entry.version}`);
    ({ hash: previous, answers } = entry);
  }
}
