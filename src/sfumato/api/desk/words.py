"""Everything that the desk says of its own, in English and in German: both beside each other, so that none is lost."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup

from sfumato.api.desk.words_start import START

LANGUAGES = ENGLISH, GERMAN = "en", "de"
FIGURE = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")
SWAPPED = str.maketrans(",.", ".,")


def language_of(accepted: str) -> str:
    """The first language of a browser that the page speaks."""
    codes = (one.partition(";")[0].strip().lower()[:2] for one in accepted.split(","))
    return next((code for code in codes if code in LANGUAGES), ENGLISH)


def figure(value: Any, language: str = ENGLISH) -> Any:
    """A number, or one that is rounded already, as the language writes it; everything else stays what it is.

    >>> figure(1200, "en"), figure(1200, "de"), figure("0.5", "de"), figure(2.0, "de"), figure("a.b", "de")
    ('1,200', '1.200', '0,5', '2', 'a.b')
    """
    text = f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else value
    if language == ENGLISH or not isinstance(text, str) or not FIGURE.fullmatch(text):
        return text
    return text.translate(SWAPPED)


def say(key: str, language: str = ENGLISH, **values: Any) -> Markup:
    """The words for a key; values are escaped and set into them, numbers as the language writes them."""
    text = WORDS[key][LANGUAGES.index(language)]
    written = {name: value if isinstance(value, str) else figure(value, language) for name, value in values.items()}
    return Markup(text).format(**written)


WORDS: dict[str, tuple[str, str]] = START | {
    "title": ("Sfumato, the owner's desk", "Sfumato, der Tisch der Eigentümerin"),
    "banner": ("Private. On this computer only.", "Privat. Nur auf diesem Rechner."),
    "skip": ("Skip to the content", "Zum Inhalt"),
    "other_language": ("Deutsch", "English"),
    "end": ("End the desk", "Beenden"),
    "ended": (
        "The desk has ended. Nothing of it is left on this computer but what you released. Close this page.",
        "Der Tisch ist beendet. Davon ist nichts geblieben, außer dem, was Sie freigegeben haben.",
    ),
    "steps": ("Steps", "Schritte"),
    "step_columns": ("Columns", "Spalten"),
    "step_strength": ("How much", "Wie viel"),
    "step_try": ("Try", "Ausprobieren"),
    "step_release": ("Release", "Freigeben"),
    "step_look": ("Look", "Ansehen"),
    "step_push": ("Send", "Senden"),
    "state_settled": ("settled by the study", "von der Studie festgelegt"),
    "state_not_pushed": ("nothing sent", "nichts gesendet"),
    "state_pushed": ("sent", "gesendet"),
    "state_declared": ("all ranges declared", "alle Bereiche erklärt"),
    "state_read_off": ("ranges read off your data: {count}", "aus Ihren Daten abgelesene Bereiche: {count}"),
    "state_chances": ("at most {chances} in 10", "höchstens {chances} von 10"),
    "state_no_bound": ("no bound", "keine Schranke"),
    "state_not_tried": ("not tried", "nicht ausprobiert"),
    "state_tried": ("{count} settings tried", "{count} Einstellungen ausprobiert"),
    "state_not_released": ("nothing released", "nichts freigegeben"),
    "state_released": ("released", "freigegeben"),
    "state_not_looked": ("not looked at", "noch nicht angesehen"),
    "state_looked": ("looked at", "angesehen"),
    "next": ("Next", "Weiter"),
    "save": ("Save", "Speichern"),
    "as_command": ("The same as a command", "Dasselbe als Befehl"),
    "as_python": ("The same in Python", "Dasselbe in Python"),
    "reading": ("Your table is being read.", "Ihre Tabelle wird gelesen."),
    "not_read": ("No table could be read.", "Es konnte keine Tabelle gelesen werden."),
    "old_form": (
        "That form was sent before, or something changed in another window. It did nothing; this is how things stand.",
        "Das Formular war schon gesendet, oder in einem anderen Fenster hat sich etwas geändert. Es bewirkte nichts.",
    ),
    "stopped": ("Stopped. Nothing of it was left behind.", "Angehalten. Davon ist nichts zurückgeblieben."),
    "stopped_push": (
        "Stopped. It may have arrived: look again at what would leave. Sending the same release again does nothing.",
        "Angehalten. Vielleicht kam es an: Sehen Sie noch einmal nach. Dasselbe nochmals zu senden bewirkt nichts.",
    ),
    # 2
    "strength_title": ("How much may be given away?", "Wie viel darf preisgegeben werden?"),
    "strength_fact": (
        "An attacker gives a fact about a person 1 chance in 10. The person's own row may lift it to at most:",
        "Ein Angreifer gibt einer Tatsache über eine Person 1 Chance von 10. Deren Zeile darf sie höchstens heben auf:",
    ),
    "chances": ("chances in 10", "Chancen von 10"),
    "who_holds": ("Who may hold the rows?", "Wer darf die Zeilen haben?"),
    "trust_owner": (
        "only we, who hold the table now: others get made-up rows; the bound also covers whether somebody is in it",
        "nur wir: Andere bekommen ausgedachte Zeilen; die Schranke gilt auch dafür, ob jemand in der Tabelle steht",
    ),
    "trust_nobody": (
        "no one, not even whoever collects them: each row is blurred by itself; who is in the table is not hidden",
        "niemand, auch nicht, wer sie sammelt: Jede Zeile wird für sich verwischt; wer darin steht, bleibt sichtbar",
    ),
    "trust_read_off": (
        "While ranges are read off your data, rows can only be blurred.",
        "Solange Bereiche aus Ihren Daten abgelesen sind, können Zeilen nur verwischt werden.",
    ),
    "method_owner": ("made-up rows, drawn from noisy counts", "ausgedachte Zeilen, aus verrauschten Zählungen gezogen"),
    "method_nobody": ("each row blurred by itself", "jede Zeile für sich verwischt"),
    "promise": (
        "Whatever other rows teach, {own} can lift a fact from 1 chance in 10 to at most {chances} in 10.",
        "Was auch immer die anderen Zeilen lehren: {own} eine Tatsache von 1 Chance von 10 auf höchstens {chances} "
        "von 10 heben.",
    ),
    "own_row": ("a person's own row", "Die eigene Zeile einer Person kann"),
    "own_rows": ("a person's {count} rows together", "Die {count} Zeilen einer Person zusammen können"),
    "promise_together": (
        "With the earlier releases in your ledger ({count}): whatever other rows teach, a person's own rows can lift a "
        "fact from 1 chance in 10 to at most {chances} in 10.",
        "Mit den früheren Freigaben in Ihrem Verzeichnis ({count}): Was auch immer andere Zeilen lehren, die eigenen "
        "Zeilen einer Person können eine Tatsache von 1 Chance von 10 auf höchstens {chances} von 10 heben.",
    ),
    "promise_alone": (
        "This release alone: whatever other rows teach, {own} can lift a fact from 1 chance in 10 to at most {chances} "
        "in 10.",
        "Diese Freigabe allein, was auch immer andere Zeilen lehren: {own} eine Tatsache von 1 Chance von 10 auf "
        "höchstens {chances} von 10 heben.",
    ),
    "promise_after": (
        "For people who were in earlier releases too ({count} are in your ledger) it is more: how much, only their "
        "rows can tell, and the release says it.",
        "Für Menschen, die auch in früheren Freigaben waren ({count} stehen im Verzeichnis), ist es mehr: Wie viel, "
        "zeigen erst ihre Zeilen, und die Freigabe sagt es.",
    ),
    "promise_none": (
        "Nothing can be proved of all releases together: an earlier one in your ledger has no bound.",
        "Von allen Freigaben zusammen lässt sich nichts beweisen: Eine frühere in Ihrem Verzeichnis hat keine "
        "Schranke.",
    ),
    "promise_missed": (
        "{chances} in 10 cannot be kept, because earlier releases count too. Those of other people do not, where both "
        "have a name: see below.",
        "{chances} von 10 lässt sich nicht halten, weil frühere Freigaben mitzählen. Die von anderen Menschen zählen "
        "nicht, wo beide einen Namen haben: siehe unten.",
    ),
    "promise_but": ("It may fail with probability 1 in {count}.", "Mit Wahrscheinlichkeit 1 zu {count} gilt es nicht."),
    "unproved_read": (
        "Measured, not proved: ranges were read off your table ({count}). Declare them in step 1 to have a proof.",
        "Gemessen, nicht bewiesen: Bereiche sind aus Ihrer Tabelle abgelesen ({count}). Erklären Sie sie in Schritt 1.",
    ),
    "unproved_follows": ("Only if they were declared would this hold:", "Nur wenn sie erklärt wären, würde gelten:"),
    "unproved_looked_follows": (
        "Only if nobody had looked would this hold:",
        "Nur wenn niemand sie angesehen hätte, würde gelten:",
    ),
    "unprotected": (
        "At this number a rare fact can become likelier than not: formally bounded, practically unprotected.",
        "Bei dieser Zahl kann Seltenes wahrscheinlicher werden als nicht: förmlich beschränkt, praktisch ungeschützt.",
    ),
    "unproved_looked": (
        "Measured, not proved: private rows were looked at before this setting was chosen.",
        "Gemessen, nicht bewiesen: Vor der Wahl wurden private Zeilen angesehen.",
    ),
    "rows_per_person": ("Most rows that one person has", "Höchste Zahl von Zeilen einer Person"),
    "rows_per_person_hint": (
        "A number that is true of any such table, not counted in this one. The bound is for all of a person's rows.",
        "Eine Zahl, die für jede solche Tabelle gilt, nicht hier gezählt. Die Schranke gilt für alle ihre Zeilen.",
    ),
    "means": ("What that means", "Was das heißt"),
    "means_alone": ("This release alone", "Diese Freigabe allein"),
    "means_points": (
        "points of 100: the most that any fact can gain, one that was an even bet more than a rare one",
        "Punkte von 100: das Meiste, was eine Tatsache gewinnen kann, eine ungewisse mehr als eine seltene",
    ),
    "promise_moved": (
        "Save, to see what it comes to with the earlier releases.",
        "Speichern Sie, um zu sehen, was es mit den früheren Freigaben ergibt.",
    ),
    "means_pairs": (
        "of 100 pairs of people told apart at most; 50 by tossing a coin",
        "von 100 Paaren von Menschen höchstens unterschieden; 50 durch Münzwurf",
    ),
    "means_epsilon": ("epsilon, as experts say it", "Epsilon, wie Fachleute es sagen"),
    "all_choices": ("All choices as a table", "Alle Möglichkeiten als Tabelle"),
    "spent": ("Spent before", "Bisher verbraucht"),
    "spent_nothing": ("Nothing that counts is noted in your ledger.", "In Ihrem Verzeichnis steht nichts, was zählt."),
    "spent_some": (
        "Earlier releases in your ledger that count, or may count, for these people: {count}.",
        "Frühere Freigaben in Ihrem Verzeichnis, die für diese Menschen zählen oder zählen können: {count}.",
    ),
    "spent_apart": (
        "Of other people by your word, and not counted: {count}.",
        "Nach Ihrem Wort von anderen Menschen, nicht mitgezählt: {count}.",
    ),
    "cohort": ("Your name for these people, if you hold tables of others too", "Ihr Name für diese Menschen"),
    "cohort_others": (
        "Are these other people than in earlier releases? Name them",
        "Sind dies andere Menschen als in früheren Freigaben? Geben Sie ihnen einen Namen",
    ),
    "cohort_hint": (
        "Releases of people with different names are not added up, and nobody may be in two. Those without a name "
        "always count. Save, to see what it comes to.",
        "Freigaben von Menschen mit verschiedenen Namen zählen nicht zusammen, und niemand darf in zweien stehen. "
        "Die ohne Namen zählen immer. Speichern Sie, um zu sehen, was es ergibt.",
    ),
    "expect": ("What to expect", "Was zu erwarten ist"),
    "expect_right": (
        "What was learned from the release of {tables} public tables of {rows} rows was right {right} of 100 times "
        "about other people; {originals} when learned from the originals, {commonest} when always giving the commonest "
        "answer. Against its original a release lost between {least} and {most} of 100 right answers.",
        "Was aus der Freigabe von {tables} öffentlichen Tabellen mit {rows} Zeilen gelernt wurde, war über andere "
        "Menschen in {right} von 100 Fällen richtig; aus den Originalen gelernt in {originals}, mit immer der "
        "häufigsten Antwort in {commonest}. Gegenüber dem Original verlor eine Freigabe zwischen {least} und {most} "
        "von 100 richtigen Antworten.",
    ),
    "expect_shares": (
        "In the releases of {tables} public tables of {rows} rows, what share of the rows has which value of a column "
        "was wrong by {one} points of 100, and of two columns together by {two}.",
        "In den Freigaben von {tables} öffentlichen Tabellen mit {rows} Zeilen war um {one} Punkte von 100 falsch, "
        "welcher Anteil der Zeilen welchen Wert einer Spalte hat, bei zwei Spalten zusammen um {two}.",
    ),
    "expect_nothing": (
        "Without a column to predict, this was not tried on public tables at such a strength.",
        "Ohne Spalte zum Vorhersagen wurde das an öffentlichen Tabellen bei dieser Stärke nicht ausprobiert.",
    ),
    "useless": (
        "Do not expect it to be of use: learning from the releases of such tables was right no more often than always "
        "giving the commonest answer.",
        "Erwarten Sie nicht, dass es taugt: Aus Freigaben solcher Tabellen zu lernen war nicht öfter richtig als immer "
        "die häufigste Antwort.",
    ),
    "expect_moved": ("Save, to see what to expect of it.", "Speichern Sie, um zu sehen, was zu erwarten ist."),
    # 3
    "try_title": ("What would it be good for?", "Wozu taugt es?"),
    "try_public": ("Public tables of about this size", "Öffentliche Tabellen dieser Größe"),
    "try_own": ("Try settings on your own table", "Einstellungen an Ihrer Tabelle ausprobieren"),
    "tried": ("Tried on your own table", "An Ihrer Tabelle ausprobiert"),
    "as_table": ("The picture as a table", "Das Bild als Tabelle"),
    "mark": ("Mark", "Marke"),
    "pin": ("Pin", "Anheften"),
    "unpin": ("Unpin", "Lösen"),
    "next_without": ("Next, without looking at my rows", "Weiter, ohne meine Zeilen anzusehen"),
    "try_warning": (
        "Choosing here looks at your rows: nothing can be proved then, and the card says so. It takes minutes.",
        "Wer hier wählt, sieht auf Ihre Zeilen: Bewiesen ist dann nichts, und die Karte sagt es. Es dauert Minuten.",
    ),
    "try_button": ("Look at my rows and try", "Meine Zeilen ansehen und ausprobieren"),
    "axis_right": ("right", "richtig"),
    "axis_extra": ("extra, of 100", "mehr, von 100"),
    "extra_at_most": ("Extra of 100, at most", "Höchstens mehr, von 100"),
    "low_to_high": ("{low} to {high}", "{low} bis {high}"),
    "present": ("your present choice", "Ihre jetzige Wahl"),
    "best_first": (
        "Best first: by how many of 100 are right, less the extra of 100 that an attacker gets. Epsilon bounds what is "
        "learned of a row, where it is named; other numbers belong to the method.",
        "Die besten zuerst: wie viele von 100 richtig sind, weniger, was ein Angreifer von 100 mehr erfährt. Epsilon "
        "beschränkt, wo es genannt ist, was man über eine Zeile lernt; andere Zahlen gehören zum Verfahren.",
    ),
    "originals": ("originals", "Originale"),
    "commonest": ("commonest class", "häufigste Klasse"),
    "spot_proved": ("bounds, with the use that public tables had", "Schranken, mit dem Nutzen öffentlicher Tabellen"),
    "spot_measured": ("measured on your table, not proved", "an Ihrer Tabelle gemessen, nicht bewiesen"),
    "measured_word": ("measured, not proved", "gemessen, nicht bewiesen"),
    "method": ("Method", "Verfahren"),
    "right_of_100": ("Right of 100", "Richtig von 100"),
    "extra_of_100": ("Extra of 100", "Mehr, von 100"),
    "state": ("State", "Stand"),
    "not_tried": ("NOT TRIED: {what}", "NICHT AUSPROBIERT: {what}"),
    "take_it": ("Take this one", "Diese nehmen"),
    "refused_settings": ("{count} settings were refused", "{count} Einstellungen wurden abgelehnt"),
    # 4
    "leaves": ("May leave this computer", "Darf den Rechner verlassen"),
    "stays": ("Stays with you", "Bleibt bei Ihnen"),
    "format": ("The rows are written as", "Die Zeilen werden geschrieben als"),
    "gaps": (
        "Each released row reports only some of its columns, by chance; its other cells are empty. That is how a row "
        "alone is protected, and programs that read the card reckon with it.",
        "Jede freigegebene Zeile nennt nur einige ihrer Spalten, vom Zufall bestimmt; ihre anderen Zellen sind leer. "
        "So wird eine einzelne Zeile geschützt, und Programme, die die Karte lesen, rechnen damit.",
    ),
    "goes_on": (
        "A release into {folder} was interrupted. Step 4 goes on with it; another folder begins anew.",
        "Eine Freigabe nach {folder} wurde unterbrochen. Schritt 4 macht damit weiter; ein anderer Ordner beginnt neu.",
    ),
    "leaves_site": (
        "what step 6 shows before it sends it: released rows or noisy counts, and the card",
        "was Schritt 6 zeigt, bevor er es sendet: freigegebene Zeilen oder verrauschte Zählungen, und die Karte",
    ),
    "leaves_hint": (
        "signed.txt and signed.txt.sig show that the release is yours.",
        "signed.txt und signed.txt.sig zeigen, dass die Freigabe von Ihnen ist.",
    ),
    "leaves_model": (
        "model.json is what made-up rows are drawn from.",
        "Aus model.json werden ausgedachte Zeilen gezogen.",
    ),
    "rows_noisy": (
        "Your table has {count}: how many are made up is left to chance, so as not to tell just how many yours are.",
        "Ihre Tabelle hat {count}: Wie viele Zeilen ausgedacht werden, bestimmt auch der Zufall, damit ihre Zahl "
        "nicht verrät, wie viele es genau sind.",
    ),
    "stays_files": (
        "your table, report.html, and a key or a private match file where the method needs them",
        "Ihre Tabelle, report.html und ein Schlüssel oder eine private Zuordnung, wo das Verfahren sie braucht",
    ),
    "box_label_exact": ("The column to predict leaves unchanged.", "Die Spalte zum Vorhersagen bleibt unverändert."),
    "box_presence_open": ("Who is in the table is not hidden.", "Wer in der Tabelle steht, wird nicht verborgen."),
    "box_measured": (
        "Nothing is proved, because ranges were read off my table. I release it as measured only.",
        "Nichts ist bewiesen, weil Bereiche aus meiner Tabelle abgelesen wurden. Ich gebe es nur als gemessen frei.",
    ),
    "box_looked": (
        "I chose after looking at private rows: the card says so, and nothing is proved.",
        "Ich habe gewählt, nachdem ich private Zeilen gesehen habe: Die Karte sagt es, und nichts ist bewiesen.",
    ),
    "folder": ("Folder to write", "Zielordner"),
    "release_again": ("Release again", "Nochmals freigeben"),
    "released_words": ("Released {count} rows into {folder}.", "{count} Zeilen freigegeben in {folder}."),
    "released_before": (
        "Releasing again adds to what these people give away: step 2 says what both come to. Choosing again after "
        "looking is a choice on private rows.",
        "Nochmals freizugeben gibt von diesen Menschen mehr preis: Schritt 2 sagt, was beide ergeben. Nach dem Ansehen "
        "neu zu wählen ist eine Wahl nach privaten Zeilen.",
    ),
    # 5
    "look_title": ("What did you give away?", "Was haben Sie preisgegeben?"),
    "look_first": ("Release first: this step shows what was released.", "Geben Sie zuerst frei: Hier sehen Sie, was."),
    "look_button": ("Attack the release", "Die Freigabe angreifen"),
    "look_text": (
        "Attackers try to find people in the release, with your original beside it. It takes a minute or more.",
        "Angreifer suchen in der Freigabe Menschen, mit Ihrem Original daneben. Es dauert eine Minute oder länger.",
    ),
    "look_after": (
        "Whoever chooses anew after that chooses by private rows.",
        "Wer danach neu wählt, wählt nach privaten Zeilen.",
    ),
    "look_proved": ("Is it proved?", "Ist es bewiesen?"),
    "look_value": ("Learn a value?", "Einen Wert erfahren?"),
    "look_one": ("Pick out one?", "Eine Person herausgreifen?"),
    "look_use": ("Of use?", "Brauchbar?"),
    "look_public": ("Of use, on public tables like yours?", "Brauchbar, bei öffentlichen Tabellen wie Ihrer?"),
    "look_open": ("Not hidden", "Nicht verborgen"),
    "outside_missing": (
        "What was not tried needs people who are not in the table: choose a file of them below, and attack again.",
        "Was nicht ausprobiert wurde, braucht Menschen von außerhalb: Wählen Sie unten eine Datei von ihnen.",
    ),
    "before": ("Your table, first rows", "Ihre Tabelle, erste Zeilen"),
    "after": ("The release, first rows", "Die Freigabe, erste Zeilen"),
    "sides_note": ("Rows side by side belong to different people.", "Zeilen nebeneinander gehören nicht zusammen."),
    "report": ("Report (private)", "Bericht (privat, auf Englisch)"),
    "certificate": ("Certificate to print", "Bescheinigung zum Drucken (auf Englisch)"),
    "download": ("Download {name}", "{name} herunterladen"),
    "person_title": ("Find a patient", "Eine Person suchen"),
    "person_text": (
        "Type what you know of one person, as it stands in the table; leave empty what you do not know. Attackers look "
        "for that person in the release. The person need not be in the table.",
        "Geben Sie ein, was Sie von einer Person wissen, wie es in der Tabelle steht; was Sie nicht wissen, bleibt "
        "leer. Angreifer suchen diese Person in der Freigabe. Sie muss nicht in der Tabelle stehen.",
    ),
    "person_warning": (
        "Shown once, and kept nowhere. Asking counts as looking at your rows: the next release here proves nothing.",
        "Einmal gezeigt, nirgends aufbewahrt. Wer fragt, sieht auf Zeilen: Die nächste Freigabe beweist nichts.",
    ),
    "outside_file": ("A file of them, with the same columns", "Eine Datei von ihnen, mit denselben Spalten"),
    "outside_taken": ("Attackers are given:", "Die Angreifer bekommen:"),
    "outside_button": ("Take this file", "Diese Datei nehmen"),
    "outside_hint": (
        "If there is one. Without such people some attackers are not tried, and chance cannot be told.",
        "Wenn es eine gibt. Sonst werden einige Angreifer nicht ausprobiert, und Zufall lässt sich nicht erkennen.",
    ),
    "person_button": ("Look for this person", "Diese Person suchen"),
    "person_reads": (
        "It reads what is known of the person from standard input, as JSON: lists of processes show arguments.",
        "Er liest, was von der Person bekannt ist, als JSON von der Standardeingabe: Argumente sieht man von außen.",
    ),
    "person_fits": ("People in the table with these values: {count}.", "In der Tabelle mit diesen Werten: {count}."),
    "person_question": ("Question", "Frage"),
    "person_without": ("Without the release", "Ohne die Freigabe"),
    "person_outside": ("People not in the table", "Menschen, die nicht in der Tabelle stehen"),
    "person_row": ("Whose row is it?", "Wessen Zeile ist es?"),
    "person_presence": ("In the table?", "In der Tabelle?"),
    "person_own_values": ("Learn values from the row?", "Werte aus der Zeile erfahren?"),
    "person_value": ("Learn a value, the others known?", "Einen Wert erfahren, wenn die anderen bekannt sind?"),
    "person_once": ("This answer is gone when you leave the page.", "Diese Antwort verschwindet mit der Seite."),
    # 6: for a consortium's site
    "settled": (
        "The study “{name}” settles columns, ranges and method; this is by your own copy of its file.",
        "Die Studie „{name}“ legt Spalten, Bereiche und Verfahren fest; so steht es in Ihrer eigenen Studiendatei.",
    ),
    "settled_weakest": ("Weakest proof it takes", "Schwächster Beweis, den sie annimmt"),
    "settled_presence": (
        "epsilon {epsilon}, delta {delta}, for who is in the table too",
        "Epsilon {epsilon}, Delta {delta}, auch dafür, wer in der Tabelle steht",
    ),
    "settled_record": ("epsilon {epsilon} for a row", "Epsilon {epsilon} für eine Zeile"),
    "settled_none": ("none: nothing need be proved", "keiner: Es muss nichts bewiesen sein"),
    "settled_hash": ("Hash, to be told by other means", "Prüfsumme, auf anderem Weg zu vergleichen"),
    "box_study_unproved": (
        "Nothing is proved of this release: the study does not ask for it.",
        "Von dieser Freigabe ist nichts bewiesen: Die Studie verlangt es nicht.",
    ),
    "push_title": ("Send the release to the study?", "Die Freigabe an die Studie senden?"),
    "push_first": (
        "Release first: only a release is sent, never your table.",
        "Geben Sie zuerst frei: Gesendet wird nur die Freigabe, nie Ihre Tabelle.",
    ),
    "push_text": (
        "First see what would leave. The coordinator is asked which study this is, and is sent nothing yet.",
        "Sehen Sie zuerst, was gesendet würde. Der Koordinator wird nach der Studie gefragt und bekommt noch nichts.",
    ),
    "push_show": ("Show what would leave", "Zeigen, was gesendet würde"),
    "push_shown": ("What would leave", "Was gesendet würde"),
    "push_file": ("File", "Datei"),
    "push_bytes": ("{file}, {bytes} bytes", "{file}, {bytes} Bytes"),
    "push_holds": ("What is in it", "Was darin ist"),
    "push_rows": ("{rows} rows, to learn from:", "{rows} Zeilen, um daraus zu lernen:"),
    "push_counts": (
        "{count} counts with noise, of about {rows} rows; no row leaves",
        "{count} Zählungen mit Rauschen, von etwa {rows} Zeilen; keine Zeile verlässt das Haus",
    ),
    "push_study": ("Study", "Studie"),
    "push_card": ("The card, which is inside the file", "Die Karte, die in der Datei liegt (auf Englisch)"),
    "push_objections": ("The study would not take it:", "Die Studie würde es nicht annehmen:"),
    "push_agreed": (
        "“{study}” is the study that we agreed to, and this may leave.",
        "„{study}“ ist die Studie, der wir zugestimmt haben, und dies darf das Haus verlassen.",
    ),
    "push_button": ("Send it to {to}", "An {to} senden"),
    "pushed": (
        "Sent, as {site}: {bytes} bytes. The receipt lies beside the release.",
        "Gesendet, als {site}: {bytes} Bytes. Die Quittung liegt neben der Freigabe.",
    ),
    # jobs
    "step_reading the table": ("reading the table", "die Tabelle wird gelesen"),
    "step_Reading": ("reading", "es wird gelesen"),
    "step_Counting": ("counting", "es wird gezählt"),
    "step_Measuring": ("measuring", "es wird gemessen"),
    "step_Perturbing": ("blurring", "es wird verwischt"),
    "step_Writing": ("writing", "es wird geschrieben"),
    "step_Comparing": ("comparing", "es wird verglichen"),
    "step_Attacking": ("attackers at work", "Angreifer am Werk"),
    "step_Training": ("learning", "es wird gelernt"),
    "step_Trials": ("trials", "Versuche"),
    "step_Sending": ("sending", "es wird gesendet"),
    "job_show": ("Asking the coordinator which study it is", "Der Koordinator wird nach der Studie gefragt"),
    "job_push": ("Sending", "Wird gesendet"),
    "job_find": ("Looking for one person", "Eine Person wird gesucht"),
    "job_read": ("Reading the table", "Die Tabelle wird gelesen"),
    "job_release": ("Releasing", "Wird freigegeben"),
    "job_audit": ("Attacking the release", "Die Freigabe wird angegriffen"),
    "job_compare": ("Trying settings", "Einstellungen werden ausprobiert"),
    "job_waiting": ("waiting for its start", "wartet auf den Beginn"),
    "job_running": ("running:", "läuft:"),
    "job_done": ("done", "fertig"),
    "job_left": ("about {left} left in this step", "in diesem Schritt noch etwa {left}"),
    "stop": ("Stop", "Anhalten"),
    "job_failed": ("it failed.", "misslungen."),
}
