/** How the page speaks: the words of every language, the survey's own texts, numbers and dates. */

import { de } from "./words_de.js";
import { en } from "./words_en.js";

export const LANGUAGES = { en, de };

const NAMES = { en: "English", de: "Deutsch" };
export const languageName = (code) => NAMES[code] ?? code;

/** A speaker of one language: words by key, the survey's own texts, numbers. Unknown languages fall back to English. */
export class Speaker {
  constructor(language, fallback = "en") {
    this.language = language;
    this.fallback = fallback;
    this.words = LANGUAGES[language] ?? LANGUAGES.en;
    this.spoken = LANGUAGES[language] ? language : "en";
  }

  say(key, values = {}) {
    return (this.words[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
  }

  /** A text of the survey file: plain, or one for each language. */
  text(found) {
    if (found === null || found === undefined) return "";
    if (typeof found !== "object") return String(found);
    return found[this.language] ?? found[this.fallback] ?? Object.values(found)[0] ?? "";
  }

  /** The choices of a question. Intervals, and a plain yes and no, have words here where the file has none. */
  choices({ kind, choices, edges }) {
    if (kind === "number") {
      const [first, last] = [edges[0], edges.at(-1)].map((edge) => this.number(edge, 6));
      const between = edges.slice(1).map((next, at) => ({ edge: this.number(edges[at], 6), next: this.number(next, 6) }));
      const middle = between.map((values) => this.say("number_between", values));
      return [this.say("number_below", { edge: first }), ...middle, this.say("number_above", { edge: last })];
    }
    return choices.map(({ value, text }) => {
      const own = this.text(text);
      return kind === "yesno" && own === value && ["yes", "no"].includes(value) ? this.say(value) : own;
    });
  }

  /** Never 0% or 100% of what is neither. */
  percent(share) {
    const sign = share > 0.99 && share < 1 ? "> " : share > 0 && share < 0.01 ? "< " : "";
    const shown = sign ? (share > 0.5 ? 0.99 : 0.01) : share;
    return sign + new Intl.NumberFormat(this.spoken, { style: "percent", maximumFractionDigits: 0 }).format(shown);
  }

  /** The same for an upper bound: never below it. */
  percentAtMost(share) {
    return this.percent(share < 0.01 || share > 0.99 ? share : roundedUp(share, 2));
  }

  /** An upper bound: never below it. */
  numberAtMost(value, digits = 1) {
    return this.number(roundedUp(value, digits), digits);
  }

  number(value, digits = 1) {
    return new Intl.NumberFormat(this.spoken, { maximumFractionDigits: digits }).format(value);
  }

  day(date) {
    return new Intl.DateTimeFormat(this.spoken, { dateStyle: "long" }).format(new Date(`${date}T12:00:00`));
  }

  time(date) {
    return new Intl.DateTimeFormat(this.spoken, { timeStyle: "short" }).format(date);
  }
}

/** The language to begin with: the browser's first that the survey has, else the survey's first. */
export function firstLanguage(wanted, offered) {
  const short = wanted.map((code) => code.toLowerCase().split("-")[0]);
  return short.find((code) => offered.includes(code)) ?? offered[0];
}

/** Up to so many places after the point; 15 digits are all that a double is sure of, so that 1.1 stays 1.1. */
function roundedUp(value, places) {
  const scale = 10 ** places;
  return Math.ceil(Number((value * scale).toPrecision(15))) / scale;
}
