/** Everything the page says, in every language it speaks. A language is one object; all have the same keys. */

const en = {
  language: "Language",
  skip: "To the content",
  steps: "Steps",
  step_about: "About",
  step_questions: "Questions",
  step_level: "How much",
  step_send: "Check and send",
  loading: "Loading the survey …",
  by: "Asked by {by}",
  closes: "open until {date}",
  promise_title: "How this works",
  promise_blur: "Your answers are blurred on this device, by chance. Only the blurred answers are sent.",
  promise_level: "You decide how much may show through, and you see exactly what is sent before it is sent.",
  promise_final: "A sent answer cannot be withdrawn: nobody knows which one is yours.",
  promise_label: "One answer is sent as it is: “{label}”. It is marked.",
  consent_title: "What you agree to",
  trust_title: "You trust this page",
  trust_text:
    "The blurring is done by the page you are looking at, which came from {origin}. Whoever serves a page could change it. Who asks in earnest publishes the page at an independent place, with its hash, so that others can compare.",
  trust_kept: "No cookie, no tracking, nothing from other servers. Apart from the marked answer, nothing leaves this device unblurred.",
  begin: "Begin",
  back: "Back",
  next: "Continue",
  prefer_not: "Prefer not to say",
  prefer_not_hint: "A choice drawn by chance takes the place of your answer.",
  choose: "Please choose …",
  number_below: "below {edge}",
  number_between: "{edge} to {next}",
  number_above: "{edge} or more",
  yes: "Yes",
  no: "No",
  number_hint: "Only the interval counts: {intervals}",
  number_counts: "Counts as: {interval}",
  label_title: "Sent as it is",
  label_hint: "This answer is not blurred: it is what the survey wants to learn to predict.",
  missing: "Please answer, or choose “Prefer not to say”.",
  missing_label: "Please choose one. This answer is needed.",
  missing_count: "Answers still missing: {count}",
  level_title: "How much may they learn?",
  level_intro:
    "Choose the most that may show through. Below is what somebody could learn about each of your answers who already knows all the others.",
  level_limit: "Your limit",
  share_little: "share little",
  share_more: "share more",
  level_value: "Level {k} of {most}",
  level_spoken: "Level {k} of {most}: {words}",
  level_asked: "The survey asks for level {k} at present.",
  level_columns: "The columns say how much the answer that shows most would show at each level.",
  reveals_0: "almost nothing shows",
  reveals_1: "little shows",
  reveals_2: "something shows",
  reveals_3: "much shows",
  reveals_4: "nearly everything shows",
  picture_title: "What this level would show of your answers",
  picture_usual: "{usual} sure on average",
  picture_chance: "{chance} by guessing",
  picture_most: "at the very most {most}",
  picture_blank: "Nothing: you prefer not to say.",
  legend_usual: "how sure on average",
  legend_most: "at the very most, by bad luck",
  legend_chance: "guessing without any answer",
  picture_none:
    "The picture cannot be drawn here ({why}). You will see what shows through before anything is sent.",
  why_wide: "the survey is too large for it",
  why_counts: "the server does not publish its counts",
  epsilon_title: "In one number: epsilon {epsilon}",
  epsilon_text:
    "Whatever you answered, the bits that are sent are at most e^{epsilon} times as likely as with any other answers. Smaller is safer. It holds against everybody, whatever else they know.",
  epsilon_none: "This survey has no floor: no such bound holds, and single answers may be readable with certainty.",
  can_send: "Your limit is high enough: you can send now.",
  must_wait:
    "Your limit is below what is asked for. Your answers will wait on this device, encrypted, and will be sent once the level has fallen to {limit} or below. It usually falls as more people answer.",
  go_wait: "Wait, then send",
  review_title: "This is what would be sent",
  review_intro: "The bits were drawn once, on this device. They stay the same, however often they are sent.",
  review_first: "The level now allows sending. No picture could be drawn before: please look before it is sent.",
  review_more: "The level now allows sending, but this shows more than the picture you agreed to. Please look before it is sent.",
  review_level: "The survey asks for level {k}; your limit is {limit}.",
  review_answer: "Your answer",
  review_sent: "Sent as 1",
  review_nothing: "no bit",
  review_others: "{count} others: 0",
  review_believe: "The percentages say how strongly somebody who knows all your other answers then believes in yours.",
  review_belief: "Belief in your answer afterwards: {belief} ({chance} by guessing)",
  review_blank: "You prefer not to say: a choice drawn by chance stands in.",
  legend_yours: "your answer",
  legend_one: "sent as 1",
  legend_zero: "sent as 0",
  review_message: "The message, letter by letter",
  checks_title: "Checked on this device",
  check_size: "The guidance has the right size and its columns are orthonormal.",
  check_hash: "Its hash is right and stands in the public log as version {version}.",
  check_chain: "The log is unbroken as far as it was read.",
  check_counts: "It follows from the published counts.",
  check_counts_not: "Not recomputed from the published counts ({why}).",
  check_remembered: "The log agrees with what this device remembers.",
  check_first: "This is the first time this device sees the log.",
  check_witness: "Witnessed: {url} saw the same log.",
  check_silent: "Not witnessed by {url}: it did not answer.",
  check_unwitnessed: "Not witnessed: nobody else keeps this log, so this page cannot tell whether others see the same.",
  final: "A sent answer cannot be withdrawn, because nobody knows whose it is.",
  send: "Send",
  sending: "Sending …",
  asking: "Asking the server …",
  waiting_title: "Your answers wait",
  waiting_text: "They lie on this device, encrypted, and are sent once the survey asks for level {limit} or below.",
  waiting_look: "Leave this page open, or come back later. Once the level allows it, you see what would be sent, and are asked.",
  waiting_open: "Leave this page open, or come back later: it goes on by itself.",
  waiting_level: "Asked for at present: level {k}. Your limit: {limit}.",
  waiting_asked: "Last asked at {time}.",
  change_level: "Change my limit",
  offline: "No connection. Your answer stays here, encrypted, and is sent as soon as the server can be reached.",
  offline_load: "The server cannot be reached. The page tries again by itself.",
  unsent_title: "Not sent yet",
  done_title: "Thank you",
  done_text: "Your blurred answer was received. Your answers were deleted from this device.",
  done_again: "This device only remembers that it has answered.",
  already_title: "This device has answered already",
  forget: "Forget that as well",
  refused_title: "This guidance was refused",
  refused_text: "Nothing was sent. What the server gave does not fit together:",
  refused_help: "Please tell the people who ask, or wait and try again. Your answers stay here, encrypted.",
  again: "Try again",
  guidance_size: "The guidance has not the size that was announced.",
  guidance_hash: "The guidance does not have the hash that it states.",
  guidance_orthonormal: "The columns of the guidance are not orthonormal.",
  guidance_version: "The guidance is of another version than was asked for.",
  guidance_log: "The guidance is not the one that stands in the public log.",
  guidance_counts: "The guidance does not follow from the published counts.",
  guidance_level: "The published counts lead to level {detail}, and another was sent.",
  inputs_hash: "The published counts are not those that the log promises.",
  survey_hash: "The survey's questions and rules are not those that its hash stands for.",
  log_chain: "The public log of guidance is broken.",
  log_head: "The public log does not contain what the server says about it.",
  log_level: "The log states another level than the server does.",
  log_remembered: "The log is not the one that this device saw before.",
  log_witness: "A witness saw another log: {detail}",
  server_title: "The server did not take this",
  closed_title: "This survey is closed",
  closed_text: "No more answers are taken. What waits here is not sent any more.",
  changed_title: "The survey has changed",
  changed_text: "Your stored answers belong to other questions. They were not sent. Please delete them and begin anew.",
  failed_title: "This page cannot work here",
  failed_address: "The link does not name a survey. Please use the link you were given.",
  failed_invitation: "This survey is for invited people. Please open the link of your invitation: it holds your code.",
  failed_browser: "The browser does not offer what is needed to keep answers encrypted. Private windows and plain http often lack it.",
  failed_unknown: "Something went wrong that this page does not understand. Nothing was sent.",
  kept: "Encrypted answers lie on this device.",
  delete: "Delete my answers",
  deleting: "Deleting …",
  deleted: "Deleted. Nothing of your answers is left on this device.",
  unkept_title: "The browser does not store this",
  unkept_text:
    "Answers are stored, encrypted, before anything is sent; and this browser could not store or delete them. The disk may be full, or storage be blocked for this page. What you typed is still here as long as you do not close the page.",
};

const de = {
  language: "Sprache",
  skip: "Zum Inhalt",
  steps: "Schritte",
  step_about: "Worum es geht",
  step_questions: "Fragen",
  step_level: "Wie viel",
  step_send: "Prüfen und senden",
  loading: "Die Umfrage wird geladen …",
  by: "Es fragt: {by}",
  closes: "offen bis {date}",
  promise_title: "So geht es",
  promise_blur: "Ihre Antworten werden auf diesem Gerät durch Zufall verwischt. Nur die verwischten werden gesendet.",
  promise_level: "Sie bestimmen, wie viel durchscheinen darf, und sehen vor dem Senden genau, was gesendet wird.",
  promise_final: "Eine gesendete Antwort kann nicht zurückgezogen werden: Niemand weiß, welche Ihre ist.",
  promise_label: "Eine Antwort wird gesendet, wie sie ist: „{label}“. Sie ist gekennzeichnet.",
  consent_title: "Dem stimmen Sie zu",
  trust_title: "Sie vertrauen dieser Seite",
  trust_text:
    "Verwischt wird von der Seite, die Sie gerade sehen. Sie kam von {origin}. Wer eine Seite ausliefert, könnte sie ändern. Wer es ernst meint, veröffentlicht sie an unabhängiger Stelle mit ihrem Hash, damit andere vergleichen können.",
  trust_kept: "Keine Cookies, keine Verfolgung, nichts von fremden Servern. Außer der gekennzeichneten verlässt keine Antwort unverwischt dieses Gerät.",
  begin: "Beginnen",
  back: "Zurück",
  next: "Weiter",
  prefer_not: "Möchte ich nicht sagen",
  prefer_not_hint: "An die Stelle Ihrer Antwort tritt eine zufällig gezogene.",
  choose: "Bitte wählen …",
  number_below: "unter {edge}",
  number_between: "{edge} bis {next}",
  number_above: "{edge} oder mehr",
  yes: "Ja",
  no: "Nein",
  number_hint: "Nur das Intervall zählt: {intervals}",
  number_counts: "Zählt als: {interval}",
  label_title: "Wird gesendet, wie sie ist",
  label_hint: "Diese Antwort wird nicht verwischt: Sie ist das, was die Umfrage vorherzusagen lernen will.",
  missing: "Bitte antworten Sie oder wählen Sie „Möchte ich nicht sagen“.",
  missing_label: "Bitte wählen Sie eine. Diese Antwort wird gebraucht.",
  missing_count: "Noch fehlende Antworten: {count}",
  level_title: "Wie viel dürfen sie erfahren?",
  level_intro:
    "Wählen Sie, wie viel höchstens durchscheinen darf. Unten steht, was jemand über jede Ihrer Antworten erfahren könnte, der alle anderen schon kennt.",
  level_limit: "Ihre Grenze",
  share_little: "wenig teilen",
  share_more: "mehr teilen",
  level_value: "Stufe {k} von {most}",
  level_spoken: "Stufe {k} von {most}: {words}",
  level_asked: "Die Umfrage verlangt zurzeit Stufe {k}.",
  level_columns: "Die Säulen sagen, wie viel bei jeder Stufe von der Antwort durchschiene, die am meisten zeigt.",
  reveals_0: "fast nichts scheint durch",
  reveals_1: "wenig scheint durch",
  reveals_2: "einiges scheint durch",
  reveals_3: "viel scheint durch",
  reveals_4: "fast alles scheint durch",
  picture_title: "Was diese Stufe von Ihren Antworten zeigen würde",
  picture_usual: "im Mittel {usual} sicher",
  picture_chance: "{chance} durch Raten",
  picture_most: "äußerstenfalls {most}",
  picture_blank: "Nichts: Sie möchten es nicht sagen.",
  legend_usual: "wie sicher im Mittel",
  legend_most: "äußerstenfalls, bei viel Pech",
  legend_chance: "geraten, ohne jede Antwort",
  picture_none:
    "Das Bild kann hier nicht gezeichnet werden ({why}). Sie sehen vor dem Senden, was durchscheint.",
  why_wide: "die Umfrage ist dafür zu groß",
  why_counts: "der Server veröffentlicht seine Zählungen nicht",
  epsilon_title: "In einer Zahl: Epsilon {epsilon}",
  epsilon_text:
    "Was immer Sie geantwortet haben: Die gesendeten Bits sind höchstens e^{epsilon}-mal so wahrscheinlich wie bei irgendwelchen anderen Antworten. Kleiner ist sicherer. Das gilt gegenüber jedem, was er sonst auch weiß.",
  epsilon_none: "Diese Umfrage hat keine Untergrenze: Es gilt keine solche Schranke, einzelne Antworten könnten sicher lesbar sein.",
  can_send: "Ihre Grenze ist hoch genug: Sie können jetzt senden.",
  must_wait:
    "Ihre Grenze liegt unter dem, was verlangt wird. Ihre Antworten warten verschlüsselt auf diesem Gerät und werden gesendet, sobald die Stufe auf {limit} oder darunter gefallen ist. Meist fällt sie, je mehr Menschen antworten.",
  go_wait: "Warten, dann senden",
  review_title: "Das würde gesendet",
  review_intro: "Die Bits wurden einmal gezogen, auf diesem Gerät. Sie bleiben dieselben, sooft sie auch gesendet werden.",
  review_first: "Die Stufe erlaubt nun das Senden. Vorher ließ sich kein Bild zeichnen: Bitte sehen Sie es an, bevor es gesendet wird.",
  review_more: "Die Stufe erlaubt nun das Senden, aber dies zeigt mehr als das Bild, dem Sie zugestimmt haben. Bitte sehen Sie es an, bevor es gesendet wird.",
  review_level: "Die Umfrage verlangt Stufe {k}; Ihre Grenze ist {limit}.",
  review_answer: "Ihre Antwort",
  review_sent: "Als 1 gesendet",
  review_nothing: "kein Bit",
  review_others: "{count} weitere: 0",
  review_believe: "Die Prozentwerte sagen, wie sehr jemand, der alle Ihre anderen Antworten kennt, danach an Ihre glaubt.",
  review_belief: "Glaube an Ihre Antwort danach: {belief} ({chance} durch Raten)",
  review_blank: "Sie möchten es nicht sagen: Eine zufällig gezogene Antwort steht dafür.",
  legend_yours: "Ihre Antwort",
  legend_one: "als 1 gesendet",
  legend_zero: "als 0 gesendet",
  review_message: "Die Nachricht, Zeichen für Zeichen",
  checks_title: "Auf diesem Gerät geprüft",
  check_size: "Die Anleitung hat die richtige Größe, ihre Spalten sind orthonormal.",
  check_hash: "Ihr Hash stimmt und steht im öffentlichen Verzeichnis als Version {version}.",
  check_chain: "Das Verzeichnis ist lückenlos, soweit es gelesen wurde.",
  check_counts: "Sie folgt aus den veröffentlichten Zählungen.",
  check_counts_not: "Nicht aus den veröffentlichten Zählungen nachgerechnet ({why}).",
  check_remembered: "Das Verzeichnis stimmt mit dem überein, woran sich dieses Gerät erinnert.",
  check_first: "Dieses Gerät sieht das Verzeichnis zum ersten Mal.",
  check_witness: "Bezeugt: {url} sah dasselbe Verzeichnis.",
  check_silent: "Nicht bezeugt durch {url}: keine Antwort.",
  check_unwitnessed: "Nicht bezeugt: Niemand sonst führt dieses Verzeichnis, darum weiß diese Seite nicht, ob andere dasselbe sehen.",
  final: "Eine gesendete Antwort kann nicht zurückgezogen werden, weil niemand weiß, wessen sie ist.",
  send: "Senden",
  sending: "Wird gesendet …",
  asking: "Der Server wird gefragt …",
  waiting_title: "Ihre Antworten warten",
  waiting_text: "Sie liegen verschlüsselt auf diesem Gerät und werden gesendet, sobald die Umfrage Stufe {limit} oder weniger verlangt.",
  waiting_look: "Lassen Sie diese Seite offen oder kommen Sie später wieder. Sobald die Stufe es erlaubt, sehen Sie, was gesendet würde, und werden gefragt.",
  waiting_open: "Lassen Sie diese Seite offen oder kommen Sie später wieder: Es geht von selbst weiter.",
  waiting_level: "Zurzeit verlangt: Stufe {k}. Ihre Grenze: {limit}.",
  waiting_asked: "Zuletzt gefragt um {time}.",
  change_level: "Meine Grenze ändern",
  offline: "Keine Verbindung. Ihre Antwort bleibt verschlüsselt hier und wird gesendet, sobald der Server erreichbar ist.",
  offline_load: "Der Server ist nicht erreichbar. Die Seite versucht es von selbst wieder.",
  unsent_title: "Noch nicht gesendet",
  done_title: "Danke",
  done_text: "Ihre verwischte Antwort ist angekommen. Ihre Antworten wurden von diesem Gerät gelöscht.",
  done_again: "Dieses Gerät merkt sich nur, dass es geantwortet hat.",
  already_title: "Dieses Gerät hat schon geantwortet",
  forget: "Auch das vergessen",
  refused_title: "Diese Anleitung wurde abgelehnt",
  refused_text: "Nichts wurde gesendet. Was der Server gab, passt nicht zusammen:",
  refused_help: "Bitte sagen Sie es denen, die fragen, oder versuchen Sie es später. Ihre Antworten bleiben verschlüsselt hier.",
  again: "Noch einmal versuchen",
  guidance_size: "Die Anleitung hat nicht die angekündigte Größe.",
  guidance_hash: "Die Anleitung hat nicht den Hash, den sie angibt.",
  guidance_orthonormal: "Die Spalten der Anleitung sind nicht orthonormal.",
  guidance_version: "Die Anleitung ist von anderer Version als verlangt.",
  guidance_log: "Die Anleitung ist nicht die, die im öffentlichen Verzeichnis steht.",
  guidance_counts: "Die Anleitung folgt nicht aus den veröffentlichten Zählungen.",
  guidance_level: "Die veröffentlichten Zählungen führen zu Stufe {detail}, gesendet wurde eine andere.",
  inputs_hash: "Die veröffentlichten Zählungen sind nicht die, die das Verzeichnis nennt.",
  survey_hash: "Fragen und Regeln der Umfrage sind nicht die, für die ihre Prüfsumme steht.",
  log_chain: "Das öffentliche Verzeichnis der Anleitungen ist unterbrochen.",
  log_head: "Das öffentliche Verzeichnis enthält nicht, was der Server darüber sagt.",
  log_level: "Das Verzeichnis nennt eine andere Stufe als der Server.",
  log_remembered: "Das Verzeichnis ist nicht das, das dieses Gerät früher sah.",
  log_witness: "Ein Zeuge sah ein anderes Verzeichnis: {detail}",
  server_title: "Der Server hat das nicht angenommen",
  closed_title: "Diese Umfrage ist geschlossen",
  closed_text: "Es werden keine Antworten mehr angenommen. Was hier wartet, wird nicht mehr gesendet.",
  changed_title: "Die Umfrage wurde geändert",
  changed_text: "Ihre gespeicherten Antworten gehören zu anderen Fragen. Sie wurden nicht gesendet. Bitte löschen Sie sie und beginnen Sie neu.",
  failed_title: "Diese Seite kann hier nicht arbeiten",
  failed_address: "Der Link nennt keine Umfrage. Bitte verwenden Sie den Link, den Sie bekommen haben.",
  failed_invitation: "Diese Umfrage ist für Eingeladene. Bitte öffnen Sie den Link Ihrer Einladung: Er enthält Ihren Code.",
  failed_browser: "Dem Browser fehlt, was es braucht, um Antworten verschlüsselt aufzubewahren. In privaten Fenstern und über einfaches http fehlt es oft.",
  failed_unknown: "Etwas ging schief, das diese Seite nicht versteht. Nichts wurde gesendet.",
  kept: "Verschlüsselte Antworten liegen auf diesem Gerät.",
  delete: "Meine Antworten löschen",
  deleting: "Wird gelöscht …",
  deleted: "Gelöscht. Auf diesem Gerät ist nichts mehr von Ihren Antworten.",
  unkept_title: "Der Browser bewahrt das nicht auf",
  unkept_text:
    "Antworten werden verschlüsselt aufbewahrt, bevor etwas gesendet wird; dieser Browser konnte sie nicht aufbewahren oder nicht löschen. Vielleicht ist der Speicher voll oder für diese Seite gesperrt. Was Sie eingegeben haben, ist noch da, solange Sie die Seite nicht schließen.",
};

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

  /** Never 100%: nobody becomes that sure of a blurred answer. */
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
