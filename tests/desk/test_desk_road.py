"""From a table to a release and what it gave away, with forms alone; and that it is the same as the command."""

import html
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import pytest
from desk_visits import Forms

import sfumato as sf
from daily import first_daily
from sfumato.api.cli.app import app
from sfumato.api.desk.heard import without_options
from sfumato.api.desk.words import WORDS
from sfumato.api.desk.work import name_of
from sfumato.auditing.report.bottom_line import measured
from sfumato.core.errors import InterruptedRunError
from sfumato.table import Schema

DECLARED = {
    "low_0": "0",
    "high_0": "120",
    "known_0": "form",
    "words_1": "b,plantedcell",
    "known_1": "codebook",
    "words_2": "n,y",
    "known_2": "other",
    "why_2": "the two boxes of the form",
}

MEASURED = {"measured": "on", "presence_open": "on", "label_exact": "on"}


@pytest.fixture
def declared(opened, patients):
    """A desk whose table is described: all that follows can be proved."""
    visitor = opened(patients)
    visitor.enter()
    visitor.send("columns", "columns", label="ill", save="1")
    assert 'role="alert"' not in visitor.page("columns")  # it was read again
    assert visitor.send("columns", "columns", next="1", **DECLARED) == "strength"
    return visitor


def spelled(page):
    """What the page says is the same, as a command and in Python."""
    import re

    return [html.unescape(found) for found in re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)]


def test_the_road_ends_in_a_release_that_is_proved(declared, patients):
    assert declared.send("strength", "strength", chances="3", next="1") == "try"
    page = declared.page("release")
    assert "at most 3 in 10" in page
    folder = declared.form("release", "release")["folder"]
    assert Path(folder) == patients.parent / "patients-release"
    assert declared.send("release", "release") == "release"
    page = declared.page("release")
    assert "Proved" in page
    assert "files/certificate.html" in page
    card = json.loads((Path(folder) / "card.json").read_text())
    assert card["guarantee"]["kind"] == "central-dp"
    page = declared.page("look")  # nobody attacked yet: the proof is known all the same
    assert page.index("at most 3 in 10") < page.index("files/release.csv")
    assert "Of use, on public tables like yours?" in page
    assert declared.send("look", "look") == "look"
    page = declared.page("look")
    assert "Whose row is it?" in page
    # Made-up rows are not tried on people outside when none are given: what public tables kept is said instead.
    assert "Of use, on public tables like yours?" in page
    assert "public tables of" in page
    for name in ("release.csv", "card.json", "report.html", "certificate.html"):  # the table came as CSV
        assert declared.ask("GET", declared.root + "files/" + name)[0] == 200
    assert declared.ask("GET", declared.root + "files/audit.json")[0] == 404
    assert declared.ask("GET", declared.root + "files/../patients.csv")[0] == 404
    # Whoever has looked chooses by private rows from then on.
    assert "Measured, not proved" in declared.page("release")
    fields = {**declared.form("release", "release"), "looked": "on", "folder": f"{folder}-again"}
    declared.post("release", urllib.parse.urlencode(fields).encode())
    declared.page("release")
    assert stated(Path(f"{folder}-again"))["kind"] == "empirical-only"


@pytest.mark.parametrize("trust", first_daily(["owner", "nobody"]))
def test_the_same_as_a_command_and_in_python(declared, tmp_path, monkeypatch, trust):
    declared.send("strength", "strength", chances="4", trust=trust, next="1")
    command, python = spelled(declared.page("release"))
    desk, shell, calls = (tmp_path / name / "release" for name in ("desk", "shell", "calls"))
    boxes = {"label_exact": "on", "presence_open": "on"} if trust == "nobody" else {}
    body = {**declared.form("release", "release"), **boxes, "folder": str(desk)}
    declared.post("release", urllib.parse.urlencode(body).encode())
    declared.page("release")

    words = shlex.split(command)
    assert words.pop(0) == "sfumato"
    place = words[words.index("--out") + 1]
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "second.json"))  # each as if it were the only one
    app([str(shell) if word == place else word for word in words], standalone_mode=False)
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "third.json"))
    exec(python.replace(place, str(calls)), {})

    for other in (shell, calls):
        assert stated(desk)["words"] == stated(other)["words"]
        assert card_of(desk)["source_schema"] == card_of(other)["source_schema"]


def test_columns_are_declared_the_same_by_command_and_in_python(declared, tmp_path, monkeypatch):
    assert declared.send("columns", "columns", use_1="leave", save="1") == "columns"
    command, python = spelled(declared.page("columns"))
    kept = Schema.load(next((tmp_path / "tmp").glob("sfumato-desk-*/work-*/schema.json")))
    monkeypatch.chdir(tmp_path)
    made, *others = command.splitlines()
    assert others.pop(0) == "# In schema.yaml, give the role identifier to: 'ward'"
    for line in (made, *others):
        app(shlex.split(line)[1:], standalone_mode=False)
    known = {}
    exec(python, known)
    assert (
        known["schema"].private
        == kept.private
        == Schema.load("schema.yaml").with_column("ward", role="identifier").private
    )
    assert known["schema"].label == kept.label == Schema.load("schema.yaml").label
    assert known["schema"].names == kept.names


@pytest.mark.system
def test_attackers_find_the_same_by_command_in_python_and_on_the_desk(declared, tmp_path, monkeypatch, capsys):
    declared.send("release", "release", chances="4")
    declared.page("release")
    dropped(declared, outside="agecolumn,ward,ill\n" + "30,b,y\n41,b,n\n" * 30)
    declared.send("look", "look")
    page = declared.page("look")
    command, python, find, person = spelled(page)
    (tmp_path / "outside.csv").write_text("agecolumn,ward,ill\n" + "30,b,y\n41,b,n\n" * 30)
    monkeypatch.chdir(tmp_path)  # where the file lies that was dropped
    words = shlex.split(command)
    assert words[:2] == ["sfumato", "audit"]
    app([*words[1:], "--out", "shell"], standalone_mode=False)
    calls = evaluated(python)
    on_page = html.unescape(page)
    for data in (json.loads(Path("shell/audit.json").read_text()), calls.data):
        for _, said in measured(data)[1:]:
            assert without_options(said) in on_page
    # What is known of one person is typed as it runs, and stands nowhere.
    answers = {"agecolumn: ": "20", "ward: ": "b", "ill: ": "y"}
    monkeypatch.setattr("builtins.input", answers.__getitem__)
    found = evaluated(person)
    words = shlex.split(find)
    assert words[:3] == ["sfumato", "audit", "find-person"]
    monkeypatch.setattr("sys.stdin", typed('{"agecolumn": "20", "ward": "b", "ill": "y"}'))
    capsys.readouterr()
    app([*words[1:], "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out) == {**found.to_dict(), "warnings": []}
    declared.send("look", "look-person", value_0="20", value_1="b", value_2="y")
    page = declared.page("look")
    assert f"with these values: {found.fits}." in page
    assert [one.verdict() in page for one in found.found if one.right is not None]


@pytest.mark.system
def test_settings_that_are_tried_are_the_same_by_command(declared, tmp_path):
    command, python = spelled(declared.page("try"))
    declared.send("try", "try")
    page = declared.page("try")
    words = shlex.split(command)[1:]
    app(
        [str(tmp_path / "shell") if word == "compare" and place else word for place, word in enumerate(words)],
        standalone_mode=False,
    )
    tried = json.loads((tmp_path / "shell" / "compare.json").read_text())["settings"]
    assert tried
    assert evaluated(python.replace("'compare'", repr(str(tmp_path / "calls")))).data["settings"] == tried
    for one in tried:
        assert name_of(one) in page


def typed(words):
    """A standard input that holds these."""
    return io.TextIOWrapper(io.BytesIO(words.encode()))


def evaluated(python):
    """What the last line of a script comes to."""
    *before, last = python.splitlines()
    known = {}
    exec("\n".join(before), known)
    return eval(last, known)


def ticked_and_released(visitor, folder):
    """Release what is measured only."""
    fields = {**visitor.form("release", "release"), **MEASURED, "folder": str(folder)}
    visitor.post("release", urllib.parse.urlencode(fields).encode())
    assert "Measured, not proved: the range" in visitor.page("release")


def card_of(folder):
    return json.loads((folder / "card.json").read_text())


def stated(folder):
    return card_of(folder)["guarantee"]


def test_nothing_is_released_twice_by_one_form(declared, tmp_path):
    fields = declared.form("release", "release")
    body = urllib.parse.urlencode({**fields, "folder": str(tmp_path / "once")}).encode()
    declared.post("release", body)
    declared.post("release", body)  # a double click, or a page that was loaded again
    assert "That form was sent before" in declared.ask("GET", declared.root + "release")[2]
    declared.page("release")
    declared.post("release", body)
    declared.page("release")
    assert len(sf.show_ledger().releases) == 1


def test_what_is_not_understood_is_not_released(opened, patients, tmp_path):
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    # Of ranges that were read off nothing is made up: real rows are blurred, and whose they are is not hidden.
    page = visitor.page("release")
    for box in ("measured", "presence_open"):
        assert f'name="{box}"' in page
    assert "each row blurred by itself" in page
    assert "made-up rows" not in page
    assert visitor.page("strength").count("disabled") == 2
    for ticked in ({}, {"measured": "on"}):
        visitor.send("release", "release", **ticked, folder=str(tmp_path / "unread"))
        assert "Tick what you have read" in visitor.page("release")
    assert not (tmp_path / "unread").exists()
    ticked_and_released(visitor, tmp_path / "read")
    assert card_of(tmp_path / "read")["mechanism"]["name"] == "square-wave"
    assert visitor.send("columns", "columns", save="1", **DECLARED) == "columns"
    assert "made-up rows" in visitor.page("release")


def test_a_range_that_was_read_off_is_refused_until_the_source_says_so(opened, patients):
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    as_read = {"low_0": "20", "high_0": "79", "known_0": "form"}
    assert visitor.send("columns", "columns", next="1", **as_read) == "columns"
    assert "Both ends are those of your table, or roundings of them." in visitor.page("columns")
    assert visitor.send("columns", "columns", next="1", **{**as_read, "low_0": "0"}) == "columns"
    assert "The upper end is where your table ends" in visitor.page("columns")
    assert visitor.send("columns", "columns", next="1", sure_0="1", **as_read) == "strength"


def test_a_declaration_is_taken_back_and_given_anew(declared):
    assert "All ranges are declared" in declared.page("columns")
    assert declared.send("columns", "columns", known_0="", known_1="", next="1") == "columns"
    page = declared.page("columns")
    assert "Ranges read off your data: 2 of 3." in page
    assert "read off your data: 20 – 79" in page
    assert declared.send("columns", "columns", low_0="1", high_0="110", known_0="law", save="1") == "columns"
    fields = declared.form("columns", "columns")
    assert (fields["low-0"], fields["high-0"], fields["known-0"]) == ("1", "110", "law")
    declared.send("columns", "columns", low_0="0", high_0="130", known_0="form", known_1="codebook", save="1")
    assert "All ranges are declared" in declared.page("columns")


def test_cells_give_no_hint_of_who_is_named(opened, tmp_path):
    table = tmp_path / "codes.csv"
    lines = "\n".join(f"{1000 + 7 * i},{'xyz'[i % 3]}{i:04},{'yn'[i % 2]}" for i in range(80))
    table.write_text(f"measured,written,ill\n{lines}\n")
    visitor = opened(table)
    visitor.enter()
    page = visitor.page("columns")
    assert "unique" not in page
    assert "look like identifiers" not in page
    assert "not released" not in page  # leaving a column out by its cells would tell of them: the owner says so
    assert visitor.send("columns", "columns", next="1") == "columns"
    assert "No list of words can hold what stands here." in visitor.page("columns")
    fields = {**visitor.form("release", "release"), **MEASURED, "folder": str(tmp_path / "out")}
    visitor.post("release", urllib.parse.urlencode(fields).encode())
    assert "Say first in step 1 whether these are kept or left out: written." in visitor.page("release")
    assert visitor.send("columns", "columns", use_1="leave", next="1") == "strength"
    assert visitor.page("columns").count("not released") == 1


def test_people_outside_are_a_file_that_is_chosen(opened, patients):
    visitor = opened()
    visitor.enter()
    content = patients.read_bytes()
    dropped(visitor, original=content, release=content)
    visitor.page("look")
    assert dropped(visitor, outside=content) == "look"
    page = visitor.page("look")
    assert "outside.csv" in page
    assert "--holdout outside.csv" in page


@pytest.mark.parametrize("written", ["parquet", "xlsx"])
def test_a_release_is_written_as_its_owner_can_open_it(declared, written, tmp_path):
    folder = tmp_path / "release"
    declared.send("release", "release", format=written, folder=str(folder))
    page = declared.page("release")
    assert f"files/release.{written}" in page
    assert len(sf.open_release(folder).table)
    assert f'<option value="{written}" selected>' in page
    assert ("--format" in page) == (written != "parquet")


@pytest.mark.parametrize(("label", "offered"), [("ill", {"csv", "xlsx", "parquet"}), ("", {"csv", "parquet"})])
def test_excel_is_offered_where_every_row_has_a_cell(opened, patients, label, offered):
    """A blurred row may come out empty, and an empty row of a sheet is no row: the release would refuse it."""
    visitor = opened(patients)
    visitor.enter()
    if label:
        visitor.send("columns", "columns", label=label, save="1")
    page = visitor.page("release")
    assert {one for one in ("csv", "xlsx", "parquet") if f'<option value="{one}"' in page} == offered
    assert "its other cells are empty" in page


def test_a_large_release_that_was_interrupted_goes_on(declared, tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.api.desk.work.LARGE", 100)
    folder = tmp_path / "large"
    _, python = spelled(declared.page("release"))
    assert "engine='stream'" in python
    steps = []

    def stopped(step, *_):
        steps.append(step)
        if step != steps[0]:
            raise KeyboardInterrupt

    place = declared.form("release", "release")["folder"]
    begun = python.replace(place, str(folder)).replace(", out=", ", resume=True, progress=stopped, out=")
    with pytest.raises(InterruptedRunError):
        exec(begun, {"stopped": stopped})
    assert not folder.exists()
    fields = {"folder": str(folder)}
    declared.send("release", "release", **fields)
    page = declared.page("release")
    assert "Proved" in page
    assert card_of(folder)["guarantee"]["kind"] == "central-dp"
    assert not list(tmp_path.glob(".large*"))


@pytest.mark.system
def test_a_release_of_another_tool_is_attacked(opened, patients):
    visitor = opened()
    visitor.enter()
    number = visitor.form("start", "drop")["number"]
    content = patients.read_text()
    fields = [("number", number)]
    files = [("original", content), ("release", content)]
    body = "".join(f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields)
    body += "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.csv"\r\n\r\n{value}\r\n'
        for name, value in files
    )
    kind = "multipart/form-data; boundary=x"
    assert visitor.post("drop", f"{body}--x--\r\n".encode(), Content_Type=kind) == "look"
    assert "1 Columns" not in visitor.page("columns")  # of a release that is there already, only the last step is left
    visitor.send("look", "look", label="ill")
    page = visitor.page("look")
    assert "Whose row is it?" in page
    assert "sfumato audit --release release.csv --original original.csv --label ill --out audit" in page


def dropped(visitor, action="drop", **files):
    """Send files as a browser does; the screen that comes next."""
    number = visitor.form("start", action)["number"]
    parts = [f'--x\r\nContent-Disposition: form-data; name="number"\r\n\r\n{number}\r\n'.encode()]
    for name, content in files.items():
        content = content if isinstance(content, bytes) else content.encode()
        head = f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.csv"\r\n\r\n'
        parts += [head.encode(), content, b"\r\n"]
    return visitor.post(action, b"".join(parts) + b"--x--\r\n", Content_Type="multipart/form-data; boundary=x")


def without_numbers(page: str) -> str:
    """A page less the numbers of its forms and comments: chance may put dashes side by side."""
    return re.sub(r'value="[\w-]{20,}"|<!--', "", page)


def test_a_german_table_gets_through(opened, tmp_path, monkeypatch):
    """Semicolons, decimal commas, Windows letters and words for empty cells: asked on the page, not on a terminal."""
    lines = (
        f"{150 + 7 * i % 50},{i % 10};{'k.A.' if i % 20 == 0 else i % 9};{('männlich', 'weiblich')[i % 2]}"
        for i in range(240)
    )
    content = ("Größe, in cm;Note;Geschlecht\r\n" + "\r\n".join(lines)).encode("cp1252")
    visitor = opened()
    visitor.enter()
    assert dropped(visitor, table=content) == "columns"
    page = visitor.page("columns")
    assert "table.csv is not UTF-8 text." in page
    assert "--" not in without_numbers(page)
    written = {"encoding": "cp1252", "delimiter": ";"}
    visitor.send("columns", "columns-written", **written)
    page = visitor.page("columns")
    assert "looks numeric, but its numbers are written with commas" in page
    assert "--" not in without_numbers(page)
    visitor.send("columns", "columns-written", decimal=",", **written)
    assert "holds text" in visitor.page("columns")
    visitor.send("columns", "columns-written", decimal=",", missing="k.A.", **written)
    page = visitor.page("columns")
    assert "Größe, in cm" in page
    assert "read off your data: 15" in page
    visitor.send("columns", "columns", label="Geschlecht", low_0="100", high_0="250,5", known_0="form", save="1")
    assert "250.5" in visitor.page("columns")  # what was said of a column stays where another is to be predicted
    ticked_and_released(visitor, tmp_path / "deutsch")
    assert stated(tmp_path / "deutsch")
    (tmp_path / "table.csv").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    command, python = spelled(visitor.page("release"))
    app([*shlex.split(command)[1:], "--dry-run"], standalone_mode=False)
    exec(python.replace(", out=", ", dry_run=True, out="), {})


@pytest.mark.system
def test_a_person_is_looked_for_and_the_answer_is_shown_once(declared, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda *told, **more: started.append(told) or POPEN(*told, **more))
    declared.send("strength", "strength", chances="3", next="1")
    declared.send("release", "release")
    declared.page("release")
    assert "Measured, not proved" not in declared.page("release")
    fields = {**declared.form("look", "look-person"), "value-0": "27.5", "value-1": "typedcell"}
    _, _, page = declared.ask("POST", declared.root + "look-person", urllib.parse.urlencode(fields).encode())
    assert "does not fit column" in page
    assert "typedcell" in page  # what was typed is not lost with the answer, and kept nowhere else
    assert "typedcell" not in declared.page("look")
    assert "does not fit column" not in declared.page("look")
    assert declared.send("look", "look-person", value_0="20", value_1="plantedcell", value_2="y") == "look"
    while "data-job" in (page := declared.ask("GET", declared.root + "look", X_Watching="1")[2]):
        time.sleep(0.05)
    assert 'id="person-found"' in page  # the script looks, and nothing is lost by that
    page = declared.page("look")
    found = page[page.index('id="person-found"') :]
    assert found.index("Proved") < found.index("Whose row is it?")
    assert "made-up rows belong to no one" in found
    assert 'id="person-found"' not in declared.page("look")
    # It is nowhere else, and whoever asked has looked.
    assert not [file for file in (tmp_path / "tmp").rglob("*") if file.is_file() and b"plantedcell" in told_of(file)]
    assert not [seen for seen in declared.headers_seen if "plantedcell" in seen or "typedcell" in seen]
    assert started
    assert "plantedcell" not in str(started)
    assert "typedcell" not in str(started)
    assert "Measured, not proved" in declared.page("release")


POPEN = subprocess.Popen


def told_of(file):
    """What a file holds, but for the schema, whose categories the owner has typed."""
    return b"" if file.name == "schema.json" else file.read_bytes()


def test_a_job_that_is_stopped_leaves_nothing(opened, tmp_path):
    rows = "\n".join(f"{i % 97},{i % 13},{i % 7},{'yn'[i % 2]}" for i in range(200_000))
    table = tmp_path / "large.csv"
    table.write_text(f"a,b,c,ill\n{rows}\n")
    visitor = opened(table)
    visitor.enter()
    visitor.page("columns")
    fields = {**visitor.form("release", "release"), **MEASURED, "folder": str(tmp_path / "stopped")}
    visitor.post("release", urllib.parse.urlencode(fields).encode())
    page = visitor.ask("GET", visitor.root + "release")[2]
    if "data-job" in page:
        number = Forms(page).forms[0]["fields"]["number"]
        visitor.post("stop", f"number={number}".encode())
        assert not (tmp_path / "stopped").exists()
        assert not [one for one in tmp_path.iterdir() if "stopped" in one.name]


@pytest.mark.system
def test_a_desk_that_was_killed_can_be_gone_on_with(patients, tmp_path, opened):
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "sfumato", "open", str(patients), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        from desk_visits import Visitor

        assert process.stdout is not None
        killed = Visitor(process.stdout.readline().strip())
        killed.enter()
        killed.send("columns", "columns", label="ill", save="1")
        killed.page("columns")
        killed.send("columns", "columns", save="1", **DECLARED)
        process.send_signal(signal.SIGKILL)
    assert list((tmp_path / "tmp").iterdir())
    visitor = opened()
    visitor.enter()
    assert "Unfinished work" in visitor.page("start")
    assert visitor.send("start", "start-go-on", go_on="1") == "columns"
    assert "All ranges are declared" in visitor.page("columns")


@pytest.mark.system
def test_sigterm_ends_the_program_and_removes_everything(patients, tmp_path):
    command = [sys.executable, "-m", "sfumato", "open", str(patients), "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as process:
        assert process.stdout is not None
        address = process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(30) == 0
    assert address.startswith(b"http://127.0.0.1:")
    assert rest == b""
    assert not list((tmp_path / "tmp").iterdir())


def test_both_languages_say_the_same_things(opened, patients):
    import string

    for key, (english, german) in WORDS.items():
        names = [{name for _, name, _, _ in string.Formatter().parse(text) if name} for text in (english, german)]
        assert names[0] == names[1], key
        for word in ("safe", "anonym", "sicher "):
            assert word not in english.lower(), key
            assert word not in german.lower(), key
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    assert visitor.send("columns", "language", language="de", screen="columns") == "columns"
    assert "Was sind die Spalten?" in visitor.page("columns")


def test_a_wide_table_with_names_of_every_kind(opened, tmp_path):
    names = ["<script>alert(1)</script>", "x" * 10_000, "שם", 'quo"te', "a\u202eb", *[f"c{i}" for i in range(300)]]
    import csv

    table = tmp_path / "wide.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *[[i * j % 11 for j in range(len(names))] for i in range(60)]])
    visitor = opened(table)
    visitor.enter()
    page = visitor.page("columns")
    assert "<script>alert" not in page
    assert page.count("<tr") >= 300
    visitor.send("columns", "columns", low_5="0", high_5="50", known_5="form", save="1")
    assert "304 of 305" in visitor.page("columns")


def test_exposure_is_told_by_names_and_kinds_alone():
    schema = Schema.from_dict(
        {
            "version": 1,
            "columns": [
                {"name": name, "kind": kind, "role": "private", **domain}
                for name, kind, domain in (
                    ("patientId", "integer", {"low": 0, "high": 1}),
                    ("Telefon", "categorical", {"categories": ["a"]}),
                    ("plz", "integer", {"low": 0, "high": 1}),
                    ("age_at_entry", "integer", {"low": 0, "high": 1}),
                    ("glucose", "numeric", {"low": 0, "high": 1}),
                    *((name, "integer", {"low": 0, "high": 1}) for name in ("Fallnr.", "Kennung", "Kontonr")),
                )
            ],
        }
    )
    from sfumato.advising.recommend import exposure

    found = exposure(schema)
    assert [one.level for one in found] == [5, 5, 4, 3, 2, 5, 5, 5]
    assert [one.is_identifier for one in found] == [True, True, False, False, False, True, True, True]


@pytest.mark.parametrize("content", ["", "a,b\n"])
def test_a_table_that_cannot_be_read_is_said_to_be_so_on_every_screen(opened, tmp_path, content):
    table = tmp_path / "nothing.csv"
    table.write_text(content)
    visitor = opened(table)
    visitor.enter()
    assert "Reading the table: it failed." in visitor.page("columns")
    for name in ("strength", "try", "release"):
        assert "No table could be read." in visitor.page(name)
    number = visitor.form("start", "drop")["number"]
    assert visitor.post("look", f"number={number}".encode()) == "look"
    assert "There is no release yet" in visitor.page("look")
