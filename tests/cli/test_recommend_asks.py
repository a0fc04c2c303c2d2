"""`recommend` on a terminal asks what people know; a script is never asked."""

import os
import pty
import select
import subprocess
import sys

import pytest

RUN = [sys.executable, "-c", "from sfumato.api.cli import main; main()", "recommend"]
SCHEMA = """
version: 1
columns:
  - {name: age, kind: integer, low: 0, high: 120, source: public, reason: ages of people}
  - {name: ill, kind: categorical, role: label, categories: ["no", "yes"], source: public, reason: the form}
"""


@pytest.fixture
def table(tmp_path):
    rows = "".join(f"{20 + i % 60},{'yes' if i % 3 else 'no'}\n" for i in range(600))
    (tmp_path / "people.csv").write_text("age,ill\n" + rows)
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return tmp_path


def on_a_terminal(folder, words, typed):
    """What a person sees who types these lines."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen([*RUN, *words], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, "".join(f"{line}\n" for line in typed).encode())
    seen = b""
    while select.select([ours], [], [], 120)[0]:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end was closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    return done.wait(120), " ".join(seen.decode().split())


def test_on_a_terminal_it_asks_and_prints_the_command_before_the_answer(table):
    code, seen = on_a_terminal(table, ["people.csv", "--schema", "schema.yaml"], ["us", "", "partners", "11", "", "4"])
    assert code == 0, seen
    for question in (
        "Who may hold the table?",
        "Who will get the rows",
        "How sure may they become",
        "rows may one person",
    ):
        assert question in seen
    assert "Please type we or nobody or people." in seen
    assert "Please type a number from 1.01 to 9.99." in seen
    same = "sfumato recommend people.csv --max-posterior 0.3 --schema schema.yaml --max-rows-per-person 4"
    assert seen.index(same) < seen.index("made-up rows drawn from noisy counts")
    assert "a person's 4 rows together can lift a fact from 1 chance in 10 to at most 3" in seen
    assert "--person COLUMN --max-rows-per-person 4 --out release" in seen
    piped = subprocess.run([*RUN, *same.split()[2:]], cwd=table, capture_output=True, text=True, check=True)
    assert " ".join(piped.stdout.split()) in seen, "the command says the same"


def test_whoever_names_a_wish_or_pipes_is_not_asked(table):
    code, seen = on_a_terminal(table, ["people.csv", "--schema", "schema.yaml", "--epsilon", "1"], [])
    assert (code, "Who may hold" in seen) == (0, False)
    words = [*RUN, "people.csv", "--schema", "schema.yaml"]
    piped = subprocess.run(words, cwd=table, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    assert "Recommended: made-up rows" in piped.stdout
    assert max(map(len, piped.stdout.split("\n\n")[0].splitlines())) <= 80
