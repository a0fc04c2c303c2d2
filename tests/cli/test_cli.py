"""The commands as a user types them: files, exit codes, one clear line for a mistake, nothing private in it."""

import json
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from typer.main import get_command

from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded

SECRET = "Xantippe-4711"


@pytest.fixture
def run(capsys):
    """Run a command; returns exit code, standard output and standard error."""

    def run(*arguments):
        code = run_guarded(app, [str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def wine(tmp_path):
    path = tmp_path / "wine.csv"
    load_wine(as_frame=True).frame.rename(columns={"target": "label"}).to_csv(path, index=False)
    return path


def test_after_several_releases_the_total_comes_first(run, tmp_path):
    """Four releases at epsilon 4: who sees all of them can become nearly certain, and every command says so first."""
    pd.DataFrame({"age": [10, 20, 30, 40] * 5}).to_csv(tmp_path / "t.csv", index=False)
    bounds = "{name: age, kind: integer, low: 0, high: 100, source: public, reason: years}"
    (tmp_path / "s.yaml").write_text(f"columns:\n- {bounds}\n")
    fixed = ["--schema", tmp_path / "s.yaml", "--mechanism", "additive-noise", "--epsilon-record", "4"]
    said = [run("sanitize", tmp_path / "t.csv", *fixed, "--out", tmp_path / f"r{i}")[1] for i in range(4)]
    assert "from 1 chance in 10 to at most 8.6 in 10" in said[0]
    total = "from 1 chance in 10 to nearly 10 in 10"
    for text in (said[3], run("show", tmp_path / "r3")[1]):
        assert total in text.splitlines()[0]
        assert text.index(total) < text.index("This release alone: epsilon 4 for values")
    code, _, _ = run("audit", tmp_path / "r3", "--original", tmp_path / "t.csv", "--out", tmp_path / "a")
    assert code == 0
    page = next((tmp_path / "a").glob("*.html")).read_text()
    assert page.index("all 4 together come to epsilon 16") < page.index("This release alone: epsilon 4")


def test_the_whole_road(run, wine, tmp_path):
    code, out, err = run("schema", wine, "--label", "label", "--out", tmp_path / "s.yaml")
    assert code == 0
    assert "13 private columns" in out
    assert "read off the private table" in err
    code, out, _ = run(
        "sanitize", wine, "--schema", tmp_path / "s.yaml", "--epsilon-record", "6", "--out", tmp_path / "r"
    )
    assert code == 0
    assert "Released 178 rows" in out
    assert stat.S_IMODE((tmp_path / "r" / "trace.parquet").stat().st_mode) == 0o600
    card = json.loads((tmp_path / "r" / "card.json").read_text())
    assert card["guarantee"]["conditional_epsilon"]["record"] == pytest.approx(6, rel=1e-6)
    assert card["chosen_by"] == "epsilon 6"
    code, out, _ = run("show", tmp_path / "r")
    assert code == 0
    assert "What is not protected" in out
    code, out, _ = run("train", tmp_path / "r", "--classifier", "forest", "--out", tmp_path / "m.skops")
    assert code == 0
    code, out, _ = run("predict", tmp_path / "m.skops", wine, "--out", tmp_path / "p.csv", "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 178


def test_a_steward_can_think_in_beliefs(run, wine, tmp_path):
    beliefs = ("--max-posterior", "0.05", "--prior", "0.001")
    code, _, err = run("sanitize", wine, "--label", "label", *beliefs, "--out", tmp_path / "r")
    assert (code, (tmp_path / "r").exists()) == (4, False)
    assert "were read off your table" in err
    beliefs += ("--mechanism", "principal-laplace")
    code, out, _ = run("sanitize", wine, "--label", "label", *beliefs, "--out", tmp_path / "r", "--json")
    assert code == 0
    worst = next(row for row in json.loads(out)["guarantee"]["posteriors"] if row["prior"] == 0.001)
    assert worst["at_most"] == pytest.approx(0.05, rel=1e-6)


def test_quiet_is_silent_and_json_is_one_object(run, wine, tmp_path):
    assert run("sanitize", wine, "--label", "label", "--out", tmp_path / "a", "--quiet") == (0, "", "")
    code, out, err = run("sanitize", wine, "--label", "label", "--out", tmp_path / "b", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["private_files"] == ["trace.parquet"]
    assert json.loads(out)["warnings"]


def test_audit_writes_json_parquet_and_a_page(run, wine, tmp_path):
    run("sanitize", wine, "--label", "label", "--out", tmp_path / "r", "--quiet")
    code, out, err = run("audit", tmp_path / "r", "--original", wine, "--repeats", "1")
    assert code == 0, err
    assert "naive-estimate" in out
    assert {"audit.json", "audit.parquet", "report.html"} <= {file.name for file in (tmp_path / "r").iterdir()}
    copied = ("--release", wine, "--original", wine, "--label", "label", "--out", tmp_path / "copy")
    code, out, err = run("audit", *copied, "--repeats", "0")
    assert code == 0, err
    copy = json.loads((tmp_path / "copy" / "audit.json").read_text())
    assert max(attack["score"] or 0 for attack in copy["attacks"] if "score" in attack) == pytest.approx(1.0)


MISTAKES = {
    "empty": ("a,b,label\n", 3),
    "one row": ("a,b,label\n1,2,x\n", 3),
    "text": (f"a,b,label\n1,{SECRET},x\n2,3,y\n3,4,x\n4,1,y\n", 3),
    "infinity": ("a,b,label\n1,inf,x\n2,3,y\n3,4,x\n", 3),
    "a name of two lines": ('a,"b\nc",label\n1,2,x\n2,1,y\n3,3,x\n', 3),
    "twice": ("a,a,label\n1,2,x\n2,1,y\n", 3),
    "one class": ("a,b,label\n1,2,x\n2,1,x\n3,3,x\n", 4),
    "no such label": ("a,b,y\n1,2,x\n2,1,z\n3,3,x\n", 4),
    "all missing": ("a,b,label\n1,,x\n2,,y\n3,,x\n", 4),
    "ragged": ("a,b,label\n1,2,x\n2,1,x,9\n3,3,y\n", 3),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bad_table_gets_one_clear_line_and_leaves_nothing(run, tmp_path, name):
    text, expected = MISTAKES[name]
    (tmp_path / "t.csv").write_text(text)
    code, out, err = run("sanitize", tmp_path / "t.csv", "--label", "label", "--out", tmp_path / "r", "--quiet")
    assert (code, out) == (expected, "")
    assert err.startswith("sfumato: ")
    assert "Traceback" not in err
    assert SECRET not in err
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--mechanism", "nosuch"], 2, "no method 'nosuch'"),
        (["--param", "b=-1"], 2, "must be a positive number"),
        (["--param", "b=text"], 2, "must be a positive number"),
        (["--param", "nosuch=1"], 2, "no parameter 'nosuch'"),
        (["--param", "b"], 2, "name=value"),
        (["--param", "components=99"], 2, "between 1 and the 13"),
        (["--engine", "abacus"], 2, "--engine must be memory, stream or spark"),
        (["--format", "xml"], 2, "--format must be parquet"),
        (["--epsilon-record", "-1"], 2, "must be a positive number"),
        (["--epsilon-record", "1", "--max-posterior", "0.1"], 2, "not both"),
        (["--max-posterior", "0.0001"], 2, "must exceed the prior"),
        (["--max-rows-per-person", "0"], 2, "at least 1"),
        (["--key", "k.json"], 2, "has no key"),
        (["--schema", "nosuch.yaml"], 4, "nosuch.yaml"),
        (["--nosuch"], 2, "--nosuch"),
    ],
)
def test_a_wrong_option_is_named(run, wine, tmp_path, arguments, code, words):
    found, out, err = run("sanitize", wine, "--label", "label", "--out", tmp_path / "r", *arguments)
    assert (found, out) == (code, "")
    assert words in err
    assert not (tmp_path / "r").exists()


def test_a_seed_below_zero_is_named(run):
    def leaves(command, words):
        for name, child in getattr(command, "commands", {}).items():
            yield from leaves(child, [*words, *name.split()])
        if any(option.name == "seed" for option in command.params):
            yield words

    checked_later = (["sanitize"], ["redraw"], ["canary"], ["audit"])
    asked = [words for words in leaves(get_command(app), []) if words not in checked_later]
    assert len(asked) >= 9
    for words in asked:
        code, _, err = run(*words, "--seed", "-1")
        assert (code, "--seed" in err) == (2, True), words


def test_nothing_is_overwritten_without_force(run, wine, tmp_path):
    arguments = ("sanitize", wine, "--label", "label", "--out", tmp_path / "r", "--quiet")
    assert run(*arguments)[0] == 0
    before = (tmp_path / "r" / "release.parquet").read_bytes()
    assert run(*arguments)[0] == 5
    assert (tmp_path / "r" / "release.parquet").read_bytes() == before
    assert run(*arguments, "--force")[0] == 0
    assert (tmp_path / "r" / "release.parquet").read_bytes() != before


def test_unreadable_files_are_explained(run, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "bad.parquet").write_bytes(rng.bytes(200))
    frame = pd.DataFrame(rng.random((500, 3)), columns=list("abc"))
    frame.to_parquet(tmp_path / "cut.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "cut.parquet").read_bytes()[:-100])
    for name in ("bad.parquet", "cut.parquet", "none.csv"):
        code, _, err = run("sanitize", tmp_path / name, "--out", tmp_path / "r", "--quiet")
        assert code == 3
        assert name in err
    assert run("show", tmp_path)[0] == 6
    (tmp_path / "x.csv").write_text("a,b,c\n1,2,3\n")
    assert run("predict", tmp_path / "none.skops", tmp_path / "x.csv", "--out", tmp_path / "p.csv")[0] == 6


def test_an_unforeseen_error_shows_its_kind_but_not_its_text(run, wine, tmp_path, monkeypatch):
    import sfumato.api.sanitize as door

    def fail(*_, **__):
        raise RuntimeError(f"cell {SECRET}")

    monkeypatch.setattr(door, "sanitize_into", fail)
    code, _, err = run("sanitize", wine, "--out", tmp_path / "r")
    assert code == 1
    assert "RuntimeError" in err
    assert SECRET not in err
    monkeypatch.setattr(door, "sanitize_into", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    code, _, err = run("sanitize", wine, "--out", tmp_path / "r")
    assert code == 130
    assert err.strip() == "sfumato: Interrupted. Nothing half-finished was left behind."


def test_sql_is_read_through_a_url(run, tmp_path):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'clinic.db'}"
    frame = pd.DataFrame({"age": np.arange(40) % 30, "label": ["a", "b"] * 20})
    frame.to_sql("patients", sqlalchemy.create_engine(url), index=False)
    query = "select age, label from patients"
    code, out, _ = run("sanitize", url, "--query", query, "--label", "label", "--out", tmp_path / "r")
    assert code == 0
    assert "Released 40 rows" in out
    assert run("sanitize", url, "--out", tmp_path / "x")[0] == 2


@pytest.mark.parametrize(
    ("room", "slow"),
    [
        ("sfumato.release.sanitize", {"sklearn", "pandas", "matplotlib"}),
        ("sfumato.study.client", {"sklearn", "pandas", "matplotlib"}),
        ("sfumato.study.protocol.study_file", {"sklearn", "pandas", "matplotlib", "scipy.optimize", "pyarrow.parquet"}),
        ("sfumato.guarantee", {"sklearn", "pandas", "scipy.stats", "scipy.optimize", "scipy.sparse"}),
    ],
)
def test_a_room_starts_without_what_is_slow_to_load(room, slow):
    """A data owner who sanitizes and pushes trains nothing, and whoever reads a card computes few figures."""
    loaded = f"import sys, {room}; print(sorted({slow!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
