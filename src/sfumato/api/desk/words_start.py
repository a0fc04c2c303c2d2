"""What the first pages say in English and in German: the entry, how a file is written, START and COLUMNS."""

START: dict[str, tuple[str, str]] = {
    "entry_title": ("Open your desk", "Ihren Tisch öffnen"),
    "entry_text": (
        "Only this browser may see the desk. If it does not go on by itself, paste what follows the # in the address.",
        "Nur dieser Browser darf ihn sehen. Geht es nicht von selbst weiter, fügen Sie ein, was hinter dem # steht.",
    ),
    "entry_field": ("One-time code", "Einmal-Code"),
    "entry_button": ("Open", "Öffnen"),
    "in_english": ("{told}", "Das Programm sagt es nur auf Englisch: {told}"),
    "refused": ("This does not go on", "Hier geht es nicht weiter"),
    "written": ("How the file is written", "Wie die Datei geschrieben ist"),
    "written_hint": (
        "Excel and many hospital programs write Windows letters and decimal commas. Other files need none of this.",
        "Excel und viele Klinikprogramme schreiben Windows-Zeichen und Dezimalkommas. Andere brauchen es nicht.",
    ),
    "encoding": ("Letters (encoding)", "Zeichen (Kodierung)"),
    "encoding_cp1252": ("Windows, Western Europe (cp1252)", "Windows, Westeuropa (cp1252)"),
    "encoding_cp1250": ("Windows, Central Europe (cp1250)", "Windows, Mitteleuropa (cp1250)"),
    "encoding_cp850": ("DOS, Western Europe (cp850)", "DOS, Westeuropa (cp850)"),
    "decimal": ("Decimal mark", "Dezimalzeichen"),
    "decimal_point": ("point: 1.5", "Punkt: 1.5"),
    "decimal_comma": ("comma: 1,5", "Komma: 1,5"),
    "delimiter": ("Between two cells", "Zwischen zwei Zellen"),
    "delimiter_found": ("as the header tells", "wie es die Kopfzeile zeigt"),
    "delimiter_comma": ("comma", "Komma"),
    "delimiter_semicolon": ("semicolon", "Semikolon"),
    "delimiter_tab": ("tab", "Tabulator"),
    "missing": ("Words for an empty cell, with commas between", "Wörter für eine leere Zelle, mit Kommas dazwischen"),
    "read_again": ("Read it again", "Neu lesen"),
    "other_table": ("Take another table", "Eine andere Tabelle nehmen"),
    # start
    "start_title": ("Which table?", "Welche Tabelle?"),
    "start_text": (
        "A table has a row for each person, or several. It stays on this computer: what you release later is made up, "
        "or blurred, and you see it before anybody else does.",
        "Eine Tabelle hat eine Zeile je Person, oder mehrere. Sie bleibt auf diesem Rechner: Was Sie später freigeben, "
        "ist ausgedacht oder verwischt, und Sie sehen es vor allen anderen.",
    ),
    "choose_table": ("Your table", "Ihre Tabelle"),
    "choose_hint": (
        "Drop it anywhere on this page, or choose it: CSV, Excel, Parquet, SPSS, Stata.",
        "Ziehen Sie sie auf diese Seite oder wählen Sie sie aus: CSV, Excel, Parquet, SPSS, Stata.",
    ),
    "open_table": ("Open it", "Öffnen"),
    "replace_title": ("Another table came:", "Eine andere Tabelle kam:"),
    "replace_text": (
        "To take it gives up what was declared, chosen and tried here. What was released stays. The present table is",
        "Mit ihr geht verloren, was hier erklärt, gewählt und ausprobiert wurde. Freigegebenes bleibt. Jetzt ist es",
    ),
    "replace_not": ("Stay with the present table", "Bei der jetzigen bleiben"),
    "replace": ("Take the other one", "Die andere nehmen"),
    "lost": (
        "The desk was ended before you were done. Its copy of the table that you had dropped is gone, and with it what "
        "you declared; what was released is still there. Choose the table again:",
        "Der Tisch wurde beendet, bevor Sie fertig waren. Seine Kopie Ihrer Tabelle ist fort, und mit ihr, was Sie "
        "erklärt hatten; was freigegeben wurde, ist noch da. Wählen Sie die Tabelle noch einmal:",
    ),
    "go_on_title": ("Unfinished work", "Unfertige Arbeit"),
    "go_on_text": (
        "The desk ended before you did. What was declared, tried and begun is still there.",
        "Der Tisch endete vor Ihnen. Was erklärt, ausprobiert und begonnen wurde, ist noch da.",
    ),
    "go_on": ("Go on", "Weitermachen"),
    "remove_it": ("Remove it", "Entfernen"),
    "or_example": ("Or try it with an example", "Oder ein Beispiel ausprobieren"),
    "example_text": ("569 patients of a breast clinic, public since 1995.", "569 Patientinnen, öffentlich seit 1995."),
    "try_example": ("Try the example", "Das Beispiel nehmen"),
    "or_foreign": ("Check a release of another tool", "Die Ausgabe eines anderen Werkzeugs prüfen"),
    "foreign_text": (
        "Give the original and what the other tool made of it, with the same columns.",
        "Geben Sie das Original und das, was das andere Werkzeug daraus gemacht hat, mit denselben Spalten.",
    ),
    "original": ("Original", "Original"),
    "its_release": ("Its release", "Seine Ausgabe"),
    "check_it": ("Check it", "Prüfen"),
    "foreign_title": ("Whose row is whose?", "Wessen Zeile ist welche?"),
    "match": ("Column of both that says whose row it is", "Spalte in beiden, die sagt, wessen Zeile es ist"),
    "no_match": ("none, or the rows are in the same order", "keine, oder die Zeilen stehen in gleicher Reihenfolge"),
    "match_hint": (
        "Rows in the same order are recognised. Others are matched as an attacker would.",
        "Zeilen in gleicher Reihenfolge werden erkannt. Andere werden zugeordnet, wie es ein Angreifer täte.",
    ),
    # 1
    "columns_title": ("What are the columns?", "Was sind die Spalten?"),
    "columns_lead_read": (
        "Ranges read off your data: {count} of {all}. While there is one, nothing can be proved.",
        "Aus Ihren Daten abgelesene Bereiche: {count} von {all}. Solange es einen gibt, lässt sich nichts beweisen.",
    ),
    "columns_lead_declared": (
        "All ranges are declared: what follows can be proved, on your word that you know them without this table.",
        "Alle Bereiche sind erklärt: Auf Ihr Wort, dass Sie sie ohne diese Tabelle kennen, lässt sich etwas beweisen.",
    ),
    "columns_how": (
        "Say what your source allows, not what is in the table: its smallest and largest value belong to two people.",
        "Sagen Sie, was Ihre Quelle zulässt, nicht, was in der Tabelle steht: Deren Enden gehören zwei Menschen.",
    ),
    "mistakes": ("Not taken, and marked below: {count}.", "Nicht übernommen und unten markiert: {count}."),
    "taken_back": (
        "A declaration was taken back, and the column was read again. Look at it, then go on.",
        "Eine Erklärung wurde zurückgenommen und die Spalte neu gelesen. Sehen Sie sie an, dann weiter.",
    ),
    "table_changed": (
        "The table was changed since it was read. Nothing was released. It was read again: look at its columns first.",
        "Die Tabelle wurde geändert, seit sie gelesen wurde. Nichts wurde freigegeben. Sie wurde neu gelesen: Sehen "
        "Sie zuerst die Spalten an.",
    ),
    "columns_outside": (
        "Some attackers, and the use of made-up rows, can only be tried with people who are not in the table. If "
        "you want that, put some rows into a file of their own now, before you release, and choose it in step 5.",
        "Einige Angreifer, und wozu ausgedachte Zeilen taugen, lassen sich nur an Menschen ausprobieren, die nicht in "
        "der Tabelle stehen. Legen Sie dafür jetzt, vor der Freigabe, einige Zeilen in eine eigene Datei; in Schritt 5 "
        "wählen Sie sie aus.",
    ),
    "rows_count": ("{count} rows", "{count} Zeilen"),
    "label": ("Column to predict", "Spalte zum Vorhersagen"),
    "no_label": ("none", "keine"),
    "person": ("Column that says whose row it is", "Spalte, die sagt, wessen Zeile es ist"),
    "no_person": ("none: each row is a person", "keine: Jede Zeile ist eine Person"),
    "identifiers": (
        "These look like identifiers, by their names: leave them out, or say why they stay.",
        "Dem Namen nach sind das Kennzeichen von Personen: Lassen Sie sie weg oder sagen Sie, warum sie bleiben.",
    ),
    "column": ("Column", "Spalte"),
    "kind": ("Kind", "Art"),
    "kind_numeric": ("number", "Zahl"),
    "kind_integer": ("whole number", "ganze Zahl"),
    "kind_date": ("date", "Datum"),
    "kind_categorical": ("words", "Wörter"),
    "kind_ordinal": ("grades", "Stufen"),
    "use": ("Use", "Verwendung"),
    "keep": ("keep", "behalten"),
    "leave": ("leave out", "weglassen"),
    "left_out": ("not released", "nicht freigegeben"),
    "range": ("Range", "Bereich"),
    "from": ("from", "von"),
    "to": ("to", "bis"),
    "values": ("values", "Werte"),
    "read_off": ("read off your data: {range}", "aus Ihren Daten abgelesen: {range}"),
    "known_from": ("Known from", "Bekannt aus"),
    "known_not": ("read off the data", "aus den Daten abgelesen"),
    "known_form": ("a form", "einem Formular"),
    "known_instrument": ("the instrument", "dem Messgerät"),
    "known_law": ("a law", "einem Gesetz"),
    "known_codebook": ("a code book", "einem Codebuch"),
    "known_other": ("elsewhere:", "anderswo:"),
    "why": ("which one, page", "welches, Seite"),
    "mistake_source": (
        "Say where this range is known from; it was not taken.",
        "Sagen Sie, woher dieser Bereich bekannt ist; er wurde nicht übernommen.",
    ),
    "mistake_copied_low": (
        "The lower end is where your table begins, or a rounding of it. Type what your source says.",
        "Das untere Ende ist der Anfang Ihrer Tabelle oder eine Rundung davon. Tippen Sie, was Ihre Quelle sagt.",
    ),
    "mistake_copied_high": (
        "The upper end is where your table ends, or a rounding of it. Type what your source says.",
        "Das obere Ende ist das Ihrer Tabelle oder eine Rundung davon. Tippen Sie, was Ihre Quelle sagt.",
    ),
    "mistake_copied_low_high": (
        "Both ends are those of your table, or roundings of them. Type what your source says.",
        "Beide Enden sind die Ihrer Tabelle oder Rundungen davon. Tippen Sie, was Ihre Quelle sagt.",
    ),
    "mistake_undecided": (
        "No list of words can hold what stands here. Leave it out, or keep it and type the words that it may hold.",
        "Keine Liste von Wörtern fasst, was hier steht. Lassen Sie die Spalte weg, oder behalten Sie sie und tippen "
        "Sie die Wörter, die sie enthalten darf.",
    ),
    "choose": ("choose:", "wählen Sie:"),
    "sure": (
        "My source says just these numbers. Readers are told that it is my word.",
        "Meine Quelle nennt genau diese Zahlen. Leserinnen erfahren, dass es mein Wort ist.",
    ),
    "same_above": ("the same as the row above", "wie die Zeile darüber"),
    "exposure": ("Exposure", "Preisgabe"),
    "exposure_of": ("{level} of {most}: {why}", "{level} von {most}: {why}"),
    "exposure_identifier": ("names a person", "nennt eine Person"),
    "exposure_known_to_others": ("others know it", "andere wissen es"),
    "exposure_place_or_time": ("place or time", "Ort oder Zeit"),
    "exposure_ordinary": ("hardly known to others", "anderen kaum bekannt"),
    "predicted": ("to predict", "vorherzusagen"),
    "says_whose": ("says whose row it is", "sagt, wessen Zeile es ist"),
    "notes": ("What was noticed while reading", "Was beim Lesen auffiel"),
}
