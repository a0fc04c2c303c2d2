"""A steward who knows no English gets through the road: what the functions say stands there in German, from data."""

import ast
import html.parser
import json
import re
import urllib.parse
from pathlib import Path

import pytest
from test_desk_road import DECLARED, MEASURED, dropped

import sfumato
from sfumato.api.desk.heard import PLACE, german, heard, packed, unpacked
from sfumato.core.wording import joined, said

ENGLISH = re.compile(
    r"\b(the|[Cc]olumn|classes|row|is|are|were|of|and|which|with|has|have|this|that|from|it|been|your|you|not|nothing|people|cannot|needs?)\b"
)
SILENT = ("script", "style", "pre", "bdi", "td", "option")
"""Code, names and cells are what they are in any language; what a cell says of ours is looked at too (`said-here`)."""


class Words(html.parser.HTMLParser):
    """What is read out as German, and what is marked as English."""

    def __init__(self, page):
        super().__init__()
        self.german, self.english, self._open = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "link", "input", "br", "img"):
            self._open.append((tag, dict(attrs).get("lang")))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        language = next((one for _, one in reversed(self._open) if one), "de")
        if not any(tag in ("script", "style", "pre", "bdi") for tag, _ in self._open):
            (self.german if language == "de" else self.english).append(re.sub(r"\S*/\S*", "", " ".join(data.split())))


def left(page):
    """English on a page: outside of what is marked, and marked."""
    words = Words(page)
    assert '<html lang="de">' in page
    return [one for one in words.german if ENGLISH.search(one)], [
        one for one in words.english if one != "English" and one
    ]


@pytest.fixture
def steward(opened):
    """Opens a desk in German, and looks at each page for English."""
    seen = []

    def begin(table):
        visitor = opened(table)
        visitor.enter()
        visitor.page("start")
        visitor.send("start", "language", language="de", screen="start")

        def look(screen):
            page = visitor.page(screen)
            seen.append((screen, *left(page)))
            return page

        visitor.look = look
        return visitor

    yield begin
    assert [one for one in seen if one[1] or one[2]] == [], seen


def ticked(visitor, **fields):
    """Release, with every box ticked; their names have an underscore."""
    body = {**visitor.form("release", "release"), **MEASURED, "looked": "on", **fields}
    visitor.post("release", urllib.parse.urlencode(body).encode())


def test_the_road_of_ranges_that_were_read_off(steward, patients, tmp_path):
    one = steward(patients)
    for screen in ("start", "columns", "strength", "try", "release", "look"):
        one.look(screen)
    one.send("release", "release")
    assert "Kreuzen Sie an" in one.look("release")
    ticked(one, folder=str(tmp_path / "out"))
    assert "Gemessen, nicht bewiesen: die Bereiche von 3 Spalten wurden aus der Tabelle abgelesen." in one.look(
        "release"
    )
    ticked(one, folder=str(tmp_path / "out"))
    assert "gibt es schon" in one.look("release")
    ticked(one, folder="out")
    assert "Geben Sie den ganzen Pfad" in one.look("release")
    one.send("strength", "strength", chances="99")
    assert "von 1,1 bis 9,5" in one.look("strength")
    one.send("strength", "strength", chances="1.1", save="1")
    one.look("strength")


@pytest.mark.system
def test_the_road_to_a_proof_and_what_attackers_find(steward, patients, tmp_path):
    one = steward(patients)
    one.send("columns", "columns", label="ill", save="1")
    one.look("columns")
    german_words = DECLARED | {"why_2": "die beiden Felder im Bogen"}
    for wrong in ({"low_0": "9", "high_0": "3"}, {"low_0": "x"}, {"words_1": "b,b"}, {"low_0": "20", "high_0": "79"}):
        one.send("columns", "columns", **{**german_words, **wrong}, save="1")
        assert 'class="wrong"' in one.look("columns")
    one.send("columns", "columns", **german_words, save="1")
    one.send("strength", "strength", chances="3,5", save="1")
    assert "3,5 von 10" in one.look("strength")
    one.send("release", "release", folder=str(tmp_path / "out"))
    page = one.look("release")
    assert "Bewiesen: Was auch immer die anderen Zeilen lehren" in page
    assert "höchstens 3,5 von 10" in page
    for outside in ("", "agecolumn,ward,ill\n" + "30,b,y\n41,b,n\n" * 30):
        if outside:
            dropped(one, outside=outside)
        one.send("look", "look")
        assert "Wessen Zeile ist es?" in one.look("look")
    one.send("look", "look-person", value_0="20", value_1="b", value_2="y")
    one.look("look")
    refused = {**one.form("look", "look-person"), "value-2": "y"}
    _, _, page = one.ask("POST", one.root + "look-person", urllib.parse.urlencode(refused).encode())
    assert "Geben Sie mindestens einen Wert der Person an" in page
    assert left(page) == ([], [])
    one.send("release", "release", looked="on", folder=str(tmp_path / "again"))
    assert "nachdem diese privaten Zeilen angesehen worden waren" in one.look("release")
    one.send("strength", "strength", trust="nobody", save="1")
    one.send("try", "try")
    assert left(one.page("try"))[0] == []  # why a setting was refused is quoted there, and marked


def test_another_tools_release_is_looked_at(steward, patients):
    one = steward(None)
    dropped(one, original=patients.read_bytes(), release=patients.read_bytes())
    one.look("look")
    one.send("look", "look-person", value_0="20", value_1="b", value_2="y")
    assert "Wessen Zeile ist es?" in one.look("look")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "ist leer: Es gibt keine Kopfzeile."),
        (b"a,b\n", "hat keine Zeilen"),
        (b"a,b\n1,2\n", "nur eine Zeile"),
        ("größe\n1\n2\n".encode("cp1252"), "ist kein UTF-8-Text. Wählen Sie unten die Kodierung"),
        (b"a,b\n" + b"1,2\n" * 9 + b"1,2,3\n", "in Zeile 11 3 Zellen, die Kopfzeile hat 2"),
        (b"a;b\n" + b"1,5;2\n" * 9, "Wählen Sie unten das Komma"),
        (b"a,b\n" + b"1,2\n" * 9 + b"k.A.,2\n", "Zeile 10 steht Text"),
    ],
)
def test_a_table_that_cannot_be_read_is_explained_in_german(steward, tmp_path, own_places, content, told):  # noqa: ARG001
    table = tmp_path / "tabelle.csv"
    table.write_bytes(content)
    assert told in steward(table).look("columns")


def test_a_refusal_is_in_the_language_of_the_browser(opened):
    visitor = opened()
    status, _, page = visitor.ask("POST", "/", b"token=guess", Accept_Language="de-DE,de;q=0.9,en;q=0.8")
    assert status == 403
    assert "Diese Adresse wurde schon benutzt" in page
    assert left(page) == ([], [])


def test_every_german_sentence_has_its_english_one_in_the_code_with_the_same_values():
    """A sentence that was changed would no longer be found: then its German one is of no use."""
    written = set()
    for file in Path(sfumato.__file__).parent.rglob("*.py"):
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        written |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    composed = {f"{than} than always answering the commonest class: " for than in ("no better", "worse")}
    composed |= {"classes of the label {name}", "bounds or categories of column {name}"}
    composed |= {one for one in german() if "those of {rows:,} rows do" in one}
    assert [one for one in german() if one not in written | composed] == []
    for english, told in german().items():
        assert set(PLACE.findall(told)) <= set(PLACE.findall(english)), english
        assert not ENGLISH.search(PLACE.sub("", told).replace("of", "")), told


def test_every_refusal_of_the_desk_has_a_german_sentence():
    raised = set()
    for file in Path(sfumato.__file__).parent.joinpath("api", "desk").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error"):
                raised |= {one.value for one in node.args if isinstance(one, ast.Constant) and str(one.value)[1:]}
    assert len(raised) > 20
    assert sorted(one for one in raised if isinstance(one, str) and one not in german()) == []


def test_what_is_known_in_english_alone_is_quoted_and_marked():
    assert heard("Some rare <error>.", "en") == "Some rare &lt;error&gt;."
    assert '<span lang="en">Some rare &lt;error&gt;.</span>' in heard("Some rare <error>.", "de")
    inner = said("not tried: {why}", why=said("something rare"))
    assert heard(inner, "de") == 'nicht ausprobiert: <span lang="en">something rare</span>'


def test_figures_are_those_of_the_language_and_names_stay_as_they_are():
    told = said("tried {ways:,} ways, none found", ways=12_000)
    assert (str(told), heard(told, "de")) == (
        "tried 12,000 ways, none found",
        "12.000 Wege ausprobiert, niemanden gefunden",
    )
    named = said("how well {name} is predicted is not known; audit.json says why in its notes", name="1.5")
    assert "1.5" in heard(named, "de")


def test_a_sentence_survives_the_pipe():
    told = joined([said("{right} of 100", right="3"), "learns nothing"], "   ")
    again = json.loads(json.dumps(packed({"found": [told]})), object_hook=unpacked)["found"][0]
    assert again == told
    assert heard(again, "de") == "3 von 100   erfährt nichts"
