"""What the desk says and keeps while its state changes: what was typed, tried, stopped, killed, and left alone."""

import html
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

import pytest
from desk_visits import PLANTED, Forms, Visitor, patients  # noqa: F401 - a fixture
from test_desk_road import DECLARED, MEASURED, dropped

from sfumato.api.desk import desk, serve
from sfumato.api.desk.job import Job
from sfumato.api.desk.work import Work

CPU_SECONDS = 1.0


def test_a_range_without_its_source_is_asked_about_and_kept_on_the_page(opened, patients):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    fields = {"low_0": "0", "high_0": "120", "words_1": "b,c"}
    assert visitor.send("columns", "columns", next="1", **fields) == "columns"
    page = visitor.page("columns")
    assert page.count("Say where this range is known from") == 2
    found = Forms(page).forms
    kept = next(one["fields"] for one in found if one["action"].endswith("/columns"))
    assert (kept["low-0"], kept["high-0"], kept["words-1"]) == ("0", "120", "b,c")


def test_classes_that_were_read_off_count_too(opened, patients):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    visitor.send("columns", "columns", label="ill", save="1")
    visitor.page("columns")
    some = {name: value for name, value in DECLARED.items() if not name.endswith("_2")}
    assert visitor.send("columns", "columns", next="1", **some) == "strength"
    assert "Ranges read off your data: 1 of 3." in visitor.page("columns")
    assert "Measured, not proved" in visitor.page("strength")
    assert 'name="measured"' in visitor.page("release")


def test_the_column_that_says_whose_row_it_is_has_no_range_to_declare(opened, patients):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    visitor.send("columns", "columns", save="1", **DECLARED)
    visitor.page("columns")
    visitor.send("columns", "columns", label="ill", person="ward", save="1")
    page = visitor.page("columns")
    assert page.count("<td>to predict</td>") == page.count("<td>says whose row it is</td>") == 1
    fields = visitor.form("columns", "columns")
    assert {"words-1", "known-1"}.isdisjoint(fields)
    assert "known-2" in fields
    assert visitor.send("columns", "columns", next="1") == "strength"
    visitor.send("columns", "columns", person="", save="1")
    page = visitor.page("columns")
    assert "<td>says whose row it is</td>" not in page
    assert "known-1" in visitor.form("columns", "columns")


def test_no_bound_is_shown_without_saying_that_it_is_not_proved(opened, patients):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    for name in ("strength", "try", "release"):
        page = visitor.page(name)
        assert "Measured, not proved" in page, name
        assert "can lift a fact" not in page.partition("Measured, not proved")[0], name


def cell_of(mechanism, strength, *, refused=None):
    """A trial as a comparison keeps it; refused ones need no figures."""
    return {"mechanism": mechanism, "parameters": {"strength": strength}, "openness": strength, "split": 0} | {
        "refused": refused or "it does not fit",
        "seconds": 0.1,
    }


def test_what_was_tried_is_shown_while_others_are_and_belongs_to_the_columns(tmp_path):
    schema = {"version": 1, "columns": [{"name": "a", "kind": "integer", "low": 0, "high": 9}]}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    work = Work(tmp_path / "t.csv", "t.csv", tmp_path)
    assert work.tried == []
    (work.trials / "cells").mkdir(parents=True)
    for place in range(2):
        file = work.trials / "cells" / f"{place}.json"
        file.write_text(json.dumps(cell_of("square-wave", place)))
        assert len(work.tried) == place + 1
    (work.trials / "cells" / "broken.json").write_text("{")
    assert len(work.tried) == 2
    schema["columns"][0]["high"] = 10
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    assert work.tried == []


def test_what_is_left_of_a_release_is_proposed_and_told(opened, patients, tmp_path):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    begun = tmp_path / "another"
    (tmp_path / ".another.unfinished").mkdir()
    fields = {**visitor.form("release", "release"), **MEASURED, "folder": str(begun)}
    (tmp_path / "another").write_text("a file, where no folder can be written")
    visitor.post("release", urllib.parse.urlencode(fields).encode())
    page = visitor.page("release")
    assert "it failed" in page
    assert f"A release into {begun} was interrupted." in page
    assert visitor.form("release", "release")["folder"] == str(begun)
    private = next((tmp_path / "tmp").glob("sfumato-desk-*/work-*"))
    assert Work.kept(private).unfinished  # so that the first page can say it after a crash


def test_points_are_pinned_and_unpinned(opened, patients):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    visitor.send("columns", "columns", label="ill", save="1")
    assert visitor.page("try").count('class="mark"') == 0
    for pinned in ("2", "5"):
        assert visitor.send("try", "try-choose", pin=pinned) == "try"
    page = visitor.page("try")
    assert page.count('class="mark"') == 2
    assert page.index(">A</text>") < page.index(">B</text>")
    visitor.send("try", "try-choose", pin="2")
    assert visitor.page("try").count('class="mark"') == 1


def test_a_job_that_is_killed_says_so_and_the_desk_goes_on(opened, patients, tmp_path, monkeypatch):  # noqa: F811
    begun = []
    start = Job.__init__
    monkeypatch.setattr(Job, "__init__", lambda job, *told: start(job, *told) or begun.append(job))
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    fields = {**visitor.form("release", "release"), **MEASURED, "folder": str(tmp_path / "out")}
    visitor.post("release", urllib.parse.urlencode(fields).encode())
    begun[-1]._process.kill()
    assert "It ended without saying why" in visitor.page("release")
    assert not [one for one in tmp_path.iterdir() if "out" in one.name]
    visitor.post("release", urllib.parse.urlencode({**fields, **number(visitor)}).encode())
    visitor.page("release")
    assert (tmp_path / "out" / "card.json").exists()


def number(visitor):
    return {"number": visitor.form("release", "release")["number"]}


def test_a_job_ends_and_tidies_up_when_the_desk_is_gone(tmp_path, own_places):  # noqa: ARG001
    table = tmp_path / "large.csv"
    table.write_text("a,b\n" + "".join(f"{i % 97},{i % 13}\n" for i in range(400_000)))
    given = {"mechanism": "square-wave", "unprotected": True, "out": str(tmp_path / "out")}
    job = Job("release", {"table": {"path": str(table), "missing": ()}, "keywords": given}, lambda _: None)
    end = time.monotonic() + 60
    while not job.step and time.monotonic() < end:
        time.sleep(0.05)
    assert job._process.stdin is not None
    os.close(os.dup(job._process.stdin.fileno()))  # a copy that is closed changes nothing
    assert job.running
    job._process.stdin.close()  # as the system does where the desk dies
    job.wait(60)
    assert not job.running
    assert sorted(one.name for one in tmp_path.iterdir()) == ["home", "large.csv", "tmp"]


@pytest.mark.parametrize("content", [b"", bytes(range(256)) * 40, b"x" * 3_000_000 + b",y\n1,2\n3,4\n"])
def test_a_dropped_file_that_is_no_table_is_said_to_be_none(opened, content):
    visitor = opened()
    visitor.enter()
    dropped(visitor, table=content)
    page = visitor.page(visitor.ask("GET", visitor.root + "columns")[1].get("Location", "columns").rpartition("/")[2])
    assert "it failed." in page or "is empty." in page or "Ranges read off" in page
    assert "Traceback" not in page
    assert len(page) < 200_000


@pytest.mark.parametrize("name", [r"C:\Users\eva\a:b?.csv", "NUL", "..", "\u202e" + "x" * 900])
def test_a_dropped_files_name_is_never_a_path(opened, tmp_path, name):
    visitor = opened()
    visitor.enter()
    number = visitor.form("start", "drop")["number"]
    head = f'--x\r\nContent-Disposition: form-data; name="number"\r\n\r\n{number}\r\n'
    head += (
        f'--x\r\nContent-Disposition: form-data; name="table"; filename="{name}"\r\n\r\na,b\r\n1,2\r\n3,4\r\n--x--\r\n'
    )
    kind = "multipart/form-data; boundary=x"
    assert visitor.post("drop", head.encode(), Content_Type=kind) == "columns"
    assert "2 rows" in visitor.page("columns")
    files = {one.name for one in (tmp_path / "tmp").rglob("dropped-*/*")}
    assert files == {"0.csv"}


def test_a_job_leaves_standard_input_alone(tmp_path):
    """On Windows numpy is not loaded while another thread waits on it: every job stood still there."""
    code = (
        "import sys; from sfumato.api.desk import job; "
        "job.JOBS['ask'] = lambda asked, progress: {'left': len(sys.stdin.buffer.raw.read(1))}; job.main()"
    )
    asked = [sys.executable, "-c", code]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path) as job:
        assert job.stdin is not None
        assert job.stdout is not None
        job.stdin.write(b'{"job": "ask"}\n')
        job.stdin.flush()  # and stays open
        assert json.loads(job.stdout.readline())["result"]["left"] == 0


def test_a_disk_is_no_folder_to_write_and_breaks_no_screen(opened, patients):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    visitor.send("columns", "columns", label="ill", next="1", **DECLARED)
    assert visitor.send("release", "release", folder=Path(patients).anchor) == "release"
    assert "whole path of a new folder" in visitor.page("release")
    assert "How much may be given away?" in visitor.page("strength")


def test_the_desk_ends_after_its_last_page_and_never_during_a_job(opened, patients, monkeypatch):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    busy = threading.Event()
    monkeypatch.setattr("sfumato.api.desk.desk.Desk.busy", property(lambda _: not busy.is_set()))
    monkeypatch.setattr(serve, "IDLE_SECONDS", 0.0)
    time.sleep(2.5)  # two looks
    assert visitor.ask("GET", visitor.root + "start")[0] == 200
    busy.set()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            visitor.ask("GET", visitor.root + "start")
        except OSError:
            break
        time.sleep(0.1)
    else:
        pytest.fail("it does not end")
    visitor.cookie = ""  # it has ended


def test_the_browser_is_shown_a_private_file_and_no_address(own_places, monkeypatch):  # noqa: ARG001
    opened = []

    def browser(uri):
        file = Path(urllib.parse.unquote(urllib.parse.urlsplit(uri).path))
        modes = stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)
        opened.append((uri, file, modes, file.read_text()))

    monkeypatch.setattr("webbrowser.open", browser)
    with serve._shown("http://127.0.0.1:1/#secret"):
        (uri, file, modes, text), *_ = opened
    assert "secret" not in uri
    assert "http://127.0.0.1:1/#secret" in text
    assert modes == (0o600, 0o700)
    assert not file.parent.exists()


@pytest.mark.system
@pytest.mark.parametrize("shape", ["long", "wide"])
def test_every_screen_takes_less_than_a_second_of_the_processor(shape, tmp_path, own_places):  # noqa: ARG001
    """A million rows, and a thousand columns; time of this process alone, so that other work does not matter."""
    names = ["a", "b", "ill"] if shape == "long" else [*(f"c{one}" for one in range(999)), "ill"]
    rows = 1_000_000 if shape == "long" else 60
    table = tmp_path / "t.csv"
    lines = (",".join(str(i * (j + 1) % 11) for j in range(len(names) - 1)) + f",{'yn'[i % 2]}\n" for i in range(rows))
    with table.open("w") as file:
        file.write(",".join(names) + "\n")
        file.writelines(lines)
    door = serve.Door(1)
    with serve.Desk.begun(table, door, serve.FORMS) as desk:
        desk.job.wait()
        desk.read(desk.work, "ill")
        desk.job.wait()
        for language in ("en", "de"):
            for screen in ("start", "columns", "strength", "try", "release", "look"):
                before = time.process_time()
                answer = desk.show(screen, language)
                took = time.process_time() - before
                assert answer.status == 200
                assert took < CPU_SECONDS, f"{screen} took {took:.2f} s"
        before = time.process_time()
        typed = {"number": door.number, "label": "ill", "next": "1", "low-0": "0", "high-0": "50", "known-0": "form"}
        assert desk.take("columns", typed).status == 303
        assert time.process_time() - before < CPU_SECONDS


@pytest.mark.system
def test_a_planted_cell_is_in_nothing_that_is_left_after_stop_crash_and_search(patients, tmp_path):  # noqa: F811
    """Logged, temporary, in addresses and in lists of processes: after a stop, a killed desk, a search."""
    command = [sys.executable, "-m", "sfumato", "open", str(patients), "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    import subprocess

    log = tmp_path / "log"
    seen = []
    for end in (signal.SIGKILL, signal.SIGTERM):
        with (
            log.open("ab") as out,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=out, env=environment, text=True) as process,
        ):
            assert process.stdout is not None
            visitor = Visitor(process.stdout.readline().strip())
            visitor.enter()
            visitor.page("columns")
            visitor.send("columns", "columns", label="ill", save="1")
            visitor.page("columns")
            fields = {**visitor.form("release", "release"), **MEASURED, "folder": str(tmp_path / end.name)}
            visitor.post("release", urllib.parse.urlencode(fields).encode())
            visitor.page("release")
            visitor.send("look", "look-person", value_0="20", value_1=PLANTED, value_2="y")
            seen += [Path(one, "cmdline").read_bytes() for one in children_of(process.pid)]
            if end is signal.SIGTERM:
                running = Forms(visitor.ask("GET", visitor.root + "look")[2]).forms[0]["fields"]
                visitor.post("stop", f"number={running['number']}".encode())
            process.send_signal(end)
            process.wait(30)
            out.write((process.stdout.read() + "".join(visitor.headers_seen)).encode())
    assert seen
    assert PLANTED.encode() not in log.read_bytes() + b"".join(seen)
    assert b"agecolumn" not in log.read_bytes() + b"".join(seen)
    assert patients.stem.encode() not in log.read_bytes()
    left = [one for one in (tmp_path / "tmp").rglob("*") if one.is_file() and one.name != "schema.json"]
    assert not [one for one in left if PLANTED.encode() in one.read_bytes()]


def children_of(process):
    """Folders of /proc of what a process has started."""
    if not Path("/proc/self/task").exists():
        pytest.skip("lists of processes are read from /proc")
    threads = Path(f"/proc/{process}/task").glob("*/children")
    return [f"/proc/{child}" for file in threads for child in file.read_text().split()]


def test_what_is_promised_before_the_click_is_what_the_release_says(opened, patients, tmp_path):  # noqa: F811
    """The ledger adds up: a second release of the same strength may not keep what the first one kept."""
    visitor = opened(patients)
    visitor.enter()
    visitor.send("columns", "columns", label="ill", save="1")
    visitor.page("columns")
    visitor.send("columns", "columns", next="1", **DECLARED)
    for place, chances in enumerate(("2", "2.7", "3.2")):
        cohort = "ward 4" if place == 2 else ""
        visitor.send("strength", "strength", chances="2", cohort=cohort, next="1")
        page = visitor.page("strength")
        assert ("cannot be kept" in page) == (place > 0)
        assert ("Are these other people than in earlier releases?" in page) == (place > 0)
        assert bold(page) == chances
        if place < 2:
            assert place or bold(visitor.page("release")) == chances  # afterwards the proof alone
            visitor.send("release", "release", folder=str(tmp_path / f"out{place}"))
            page = visitor.page("release")
            assert f"at most {chances} in 10" in page
            assert page.count("can lift a fact") == 1  # one bound, not two
    assert "--cohort 'ward 4'" in html.unescape(visitor.page("release"))
    # Two releases that both name their people are not added up.
    visitor.send("release", "release", folder=str(tmp_path / "named"))
    visitor.page("release")
    visitor.send("strength", "strength", chances="2", cohort="ward 5", next="1")
    assert "Of other people by your word, and not counted: 1." in visitor.page("strength")


def test_with_several_rows_per_person_all_of_them_are_promised(opened, tmp_path):
    table = tmp_path / "visits.csv"
    table.write_text("who,age,ill\n" + "".join(f"p{i // 3},{20 + i * 7 % 60},{'yn'[i % 2]}\n" for i in range(300)))
    visitor = opened(table)
    visitor.enter()
    visitor.page("columns")
    visitor.send("columns", "columns", label="ill", person="who", save="1")
    visitor.page("columns")
    fields = {**visitor.form("strength", "strength"), "chances": "3", "rows_per_person": "3"}
    visitor.post("strength", urllib.parse.urlencode(fields).encode())
    page = html.unescape(visitor.page("strength"))
    assert "a person's 3 rows together can lift a fact" in page
    assert "a person's own row can" not in page


def test_of_blurred_rows_this_release_alone_is_promised(opened, patients, tmp_path):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    fields = {**visitor.form("release", "release"), **MEASURED, "folder": str(tmp_path / "out")}
    visitor.post("release", urllib.parse.urlencode(fields).encode())
    visitor.page("release")
    page = visitor.page("strength")
    assert "Only if they were declared would this hold:" in page
    assert "This release alone: whatever other rows teach" in page
    assert "how much, only their rows can tell" in page


def bold(page):
    """The figure of the bold sentence."""
    return re.search(r'<p class="lead"[^>]*>[^\0]*?<span data-shows="chances">([^<]*)', page)[1]


def test_another_file_asks_before_the_present_work_is_given_up(opened, tmp_path):
    visitor = opened()
    visitor.enter()
    first, second = ("a,b\n" + "".join(f"{i % n},{i % 7}\n" for i in range(60)) for n in (13, 17))
    assert dropped(visitor, table=first) == "columns"
    visitor.page("columns")
    visitor.send("columns", "columns", low_0="0", high_0="100", known_0="form", save="1")
    for answer in ("keep", "replace"):
        assert dropped(visitor, table=second) == "start"
        assert "Another table came:" in visitor.page("start")
        assert 'value="100"' in visitor.page("columns")
        assert visitor.send("start", "start-replace", **{answer: "1"}) == "columns"
        assert ('value="100"' in visitor.page("columns")) == (answer == "keep")
        assert len(list((tmp_path / "tmp").glob("sfumato-desk-*/dropped-*"))) == 1  # no copy that nobody works on


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"", "The file table.csv is empty."), (b"%PDF-1.7 x", "looks"), (b"PK\3\4\0\0", "is no table.")],
)
def test_a_file_that_is_no_table_is_said_to_be_so(opened, tmp_path, content, told):
    visitor = opened()
    visitor.enter()
    name = "table.csv" if not content else "letter.pdf" if content.startswith(b"%") else "letter.docx"
    body = b'--x\r\nContent-Disposition: form-data; name="number"\r\n\r\n'
    body += visitor.form("start", "drop")["number"].encode()
    body += b'\r\n--x\r\nContent-Disposition: form-data; name="table"; filename="%b"\r\n\r\n' % name.encode()
    body += content + b"\r\n--x--\r\n"
    assert visitor.post("drop", body, Content_Type="multipart/form-data; boundary=x") == "start"
    assert (told if told != "looks" else "letter.pdf is no table.") in visitor.page("start")
    assert not list((tmp_path / "tmp").glob("sfumato-desk-*/dropped-*"))


def test_no_file_of_people_outside_leads_nowhere_else(opened, patients):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    assert "Reading the table" not in visitor.page("columns")
    head = b'--x\r\nContent-Disposition: form-data; name="number"\r\n\r\n'
    body = head + visitor.form("start", "drop")["number"].encode()
    body += b'\r\n--x\r\nContent-Disposition: form-data; name="outside"; filename=""\r\n\r\n\r\n--x--\r\n'
    assert visitor.post("drop", body, Content_Type="multipart/form-data; boundary=x") == "look"
    assert "No file came with the form" in visitor.page("look")


@pytest.mark.parametrize("slowly", [False, True], ids=["", "and the reading ends while a page is made"])
def test_next_goes_on_once_the_table_is_read(opened, patients, monkeypatch, slowly):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    if slowly:

        def made(screen, language, values, page=desk.page):
            answer = page(screen, language, values)
            while values["desk"].busy:
                time.sleep(0.01)
            return answer

        monkeypatch.setattr(desk, "page", made)
    assert visitor.send("columns", "columns", label="ill", next="1", **DECLARED) == "columns"
    assert "How much may be given away?" in visitor.page("columns")
    assert "What are the columns?" in visitor.page("columns")  # whoever comes back stays
    visitor.send("columns", "columns", known_0="", next="1")
    assert "A declaration was taken back" in visitor.page("columns")


def test_a_table_that_was_changed_is_not_released(opened, patients, tmp_path):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    with patients.open("a") as file:
        file.write("99,b,n\n")
    fields = {**visitor.form("release", "release"), **MEASURED, "folder": str(tmp_path / "out")}
    assert visitor.post("release", urllib.parse.urlencode(fields).encode()) == "columns"
    page = visitor.page("columns")
    assert "The table was changed since it was read." in page
    assert "241 rows" in page
    assert not (tmp_path / "out").exists()


def test_values_are_taken_as_the_table_has_them(opened, tmp_path):
    """Decimal commas and dates with points, in ranges and of a person."""
    rows = (
        f"{150 + i % 50},{i % 10};{1 + i % 28:02}.{1 + i % 12:02}.{1950 + i % 50};{'jn'[i % 2]}" for i in range(240)
    )
    visitor = opened()
    visitor.enter()
    dropped(visitor, table="Größe;Geboren;Rückfall\n" + "\n".join(rows))
    visitor.send("columns", "columns-written", delimiter=";", decimal=",")
    assert "01.01.1950" in visitor.page("columns")
    ranges = {"low_0": "100", "high_0": "220,5", "known_0": "form", "words_2": "j,n", "known_2": "form"}
    visitor.send("columns", "columns", low_1="1.1.1900", high_1="31.12.2030", known_1="law", next="1", **ranges)
    fields = visitor.form("columns", "columns")
    assert (fields["low-1"], fields["high-1"]) == ("01.01.1900", "31.12.2030")
    assert "All ranges are declared" in visitor.page("columns")
    visitor.send("release", "release", folder=str(tmp_path / "out"))
    visitor.page("release")
    visitor.send("look", "look-person", value_0="176,3", value_1="05.06.1955", value_2="j")
    assert 'id="person-found"' in visitor.page("look")
    visitor.send("columns", "columns", low_1="tomorrow", save="1")
    assert "Type dates as 31.12.2001" in visitor.page("columns")


@pytest.mark.system
def test_a_dropped_table_that_a_killed_desk_had_is_told_as_gone(patients, opened):  # noqa: F811
    command = [sys.executable, "-m", "sfumato", "open", "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}, text=True
    ) as one:
        assert one.stdout is not None
        killed = Visitor(one.stdout.readline().strip())
        killed.enter()
        dropped(killed, table=patients.read_bytes())
        killed.page("columns")
        one.send_signal(signal.SIGKILL)
    visitor = opened()
    visitor.enter()
    page = visitor.page("start")
    assert "Its copy of the table that you had dropped is gone" in page
    assert "table.csv" in page.replace("<wbr>", "")


def test_it_is_said_in_time_what_cannot_be_tried_later_and_that_it_teaches_nothing(opened, patients, tmp_path):  # noqa: F811
    visitor = opened(patients)
    visitor.enter()
    assert "put some rows into a file of their own now" in visitor.page("columns")
    visitor.send("columns", "columns", label="ill", next="1", **DECLARED)
    visitor.page("columns")
    for chances, useless in (("1.2", True), ("9", False)):
        visitor.send("strength", "strength", chances=chances, save="1")
        for screen in ("strength", "try", "release"):
            page = visitor.page(screen)
            teaches_nothing = "Do not expect it to be of use" in page or "teach nothing" in page
            assert teaches_nothing == useless, (screen, chances)
    visitor.send("strength", "strength", chances="1.2", save="1")
    planned = visitor.page("release")
    visitor.send("release", "release", folder=str(tmp_path / "out"))
    page = visitor.page("release")
    for file in (tmp_path / "out").iterdir():
        if file.name not in ("key.json", "report.html"):
            assert file.name in planned, file.name
            assert f"files/{file.name}" in page
            assert visitor.ask("GET", f"{visitor.root}files/{file.name}")[0] == 200
    assert "Do not expect it to be of use" in page
    rows = re.search(r"Released (\d+) rows", page)[1]
    assert ("Your table has 240:" in page) == (rows != "240")


def test_a_range_is_taken_from_the_row_above(opened, tmp_path):
    table = tmp_path / "balances.csv"
    table.write_text("m1,m2,m3,ill\n" + "".join(f"{i % 61},{i % 53},{i % 47},{'yn'[i % 2]}\n" for i in range(240)))
    visitor = opened(table)
    visitor.enter()
    visitor.page("columns")
    visitor.send("columns", "columns", low_0="0", high_0="90", known_0="form", same_1="1", same_2="1", save="1")
    fields = visitor.form("columns", "columns")
    assert [fields[f"{end}-2"] for end in ("low", "high", "known")] == ["0", "90", "form"]
    assert "Ranges read off your data: 1 of 4." in visitor.page("columns")


def test_trials_stand_best_first_and_the_present_choice_is_marked(opened, patients):  # noqa: F811
    from sfumato.api.desk.screens import _best_first

    tried = {"refused": "", "untried": []}
    settings = {
        "poor": {**tried, "accuracy": 0.6, "extra": 4.0},
        "best": {**tried, "accuracy": 0.83, "extra": 4.0},
        "leaky": {**tried, "accuracy": 0.9, "extra": 50.0},
        "unknown": {"refused": "", "untried": ["linkability"], "accuracy": 1.0, "extra": 0.0},
    }
    assert [name for name, _ in sorted(settings.items(), key=_best_first)] == ["best", "poor", "leaky", "unknown"]
    visitor = opened(patients)
    visitor.enter()
    visitor.send("columns", "columns", label="ill", save="1")
    visitor.page("columns")
    visitor.send("strength", "strength", chances="2.4", save="1")
    page = visitor.page("try")
    assert page.count('class="present"') == page.count('aria-current="true"') == 1
    assert re.search(r'aria-current="true"><th scope="row">2.4 ', page)


def test_excel_is_proposed_for_a_table_with_decimal_commas(opened):
    visitor = opened()
    visitor.enter()
    dropped(visitor, table="a;ill\n" + "".join(f"{i % 31},{i % 7};{'yn'[i % 2]}\n" for i in range(240)))
    visitor.send("columns", "columns-written", delimiter=";", decimal=",")
    visitor.send("columns", "columns", label="ill", save="1")
    assert '<option value="xlsx" selected>' in visitor.page("release")
