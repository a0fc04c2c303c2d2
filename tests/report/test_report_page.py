"""The page as a whole: closed to the world, complete, escaped, private where it must be, the same bytes every time."""

from __future__ import annotations

import copy
import os
import stat

import pytest

from sfumato.auditing.report.bottom_line import bottom_line
from sfumato.auditing.report.page import render_report, write_report

SECTIONS = ["bottom-line", "strongest", "use", "guarantee", "experts"]
EXPERTS = [
    "attacks", "exposed", "riskiest", "accuracy", "columns", "correlations", "threat", "limits", "settings",
]  # fmt: skip


def test_three_layers_and_only_two_stand_open(private_audit, read):
    """The bottom line, the evidence, and everything else closed: nothing is deleted, and it opens without a script."""
    page = read(render_report(private_audit))
    assert page.stack == []
    assert [attributes["id"] for attributes in page.all("section")] == SECTIONS
    layers = [one for one in page.all("details") if one.get("class") == "layer"]
    assert [one["id"] for one in layers] == EXPERTS
    assert not any("open" in one for one in layers)
    assert [tag for tag, _ in page.elements if tag == "h1"] == ["h1"]
    assert {"header", "nav", "main"} <= {tag for tag, _ in page.elements}
    assert next(page.all("a")) == {"class": "skip", "href": "#bottom-line"}
    for text in ("additive-noise", "1,200 rows", "2026-11-15", "of both releases together"):
        assert text in page.text


def test_sections_that_do_not_apply_are_one_line(private_audit, read):
    text = read(render_report(private_audit)).text
    assert "Not here: Copies (not compared); Like real people (not compared); The papers' measures" in text
    assert "Who stands out (no quasi-identifier was named)." in text


def test_the_page_begins_with_the_words_of_the_terminal(private_audit, read):
    page = read(render_report(private_audit | {"extra": {"limit": 5}}, "release")).text
    told = bottom_line(private_audit | {"extra": {"limit": 5}}, "release", width=1000)
    assert " ".join(" ".join(told).split()) in page
    assert page.index("NOT WITHIN YOUR LIMITS") < page.index("Extra is how many more of 100 are right")


def test_without_a_column_to_predict_use_is_the_error_of_shares(private_audit, read):
    fidelity = {"against": "holdout", "marginals": {"release": 0.1, "original": 0.02}}
    fidelity |= {"pairs": {"release": 0.31, "original": 0.05}, "correlations": {"release": None}}
    unlabelled = private_audit | {"release": private_audit["release"] | {"label": None}}
    html = render_report(unlabelled | {"utility": [], "fidelity": fidelity})
    text = read(html).text
    assert "Of use? shares of one column are off by 10 points, of two columns by 31" in text
    assert '>Shares of two columns together</th><td class="number">31</td><td class="number">5</td>' in html


def test_every_attack_is_named_and_what_failed_does_not_look_safe(private_audit, read):
    page = read(render_report(private_audit))
    for entry in private_audit["attacks"]:
        assert entry["name"] in page.text
    assert "no-use, no-use-either" in page.text
    assert "needs what nobody has" in page.text
    assert "The attacker itself failed (ZeroDivisionError). This says nothing about privacy." in page.text
    assert "Only if the secret key has leaked." in page.text
    assert "Alone the attacker gets 41." in page.text


def test_the_worst_attack_comes_first(private_audit):
    html = render_report(private_audit)
    places = [html.index(f">{name}<") for name in ("loud-attack", "membership", "upper", "quiet-attack")]
    assert places == sorted(places)


@pytest.mark.parametrize("which", ["private_audit", "public_audit"])
def test_nothing_is_loaded_run_or_sent(which, request, read):
    html = render_report(request.getfixturevalue(which))
    page = read(html)
    assert {"script", "link", "img", "iframe", "object", "embed", "form", "base"}.isdisjoint(
        tag for tag, _ in page.elements
    )
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in html
    assert "@import" not in html
    policies = [entry["content"] for entry in page.all("meta") if "http-equiv" in entry]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_links_inside_the_page_lead_somewhere(private_audit, read):
    page = read(render_report(private_audit))
    ids = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    assert {link["href"] for link in page.all("a")} <= {f"#{name}" for name in ids}


def test_text_of_the_audit_is_escaped(private_audit):
    private_audit["attacks"][0]["story"] = '"><img src=x onerror=alert(1)>'
    private_audit["release"]["mechanism"]["name"] = "</style><script>x</script>"
    private_audit["distributions"][3]["categories"][0] = "<i>red</i>"
    html = render_report(private_audit)
    for planted in ("<script", "<img", "<b>tags", "<i>red"):
        assert planted not in html
    assert "&lt;script&gt;alert(1)&lt;/<wbr>script&gt;" in html


def test_tables_and_drawings_are_accessible(private_audit, read):
    page = read(render_report(private_audit))
    assert all(cell.get("scope") in ("col", "row") for cell in page.all("th"))
    drawings = [drawing for drawing in page.all("svg") if drawing.get("role") == "img"]
    assert len(drawings) > 10
    assert html_titles(page) == len(drawings) + 1  # and the title of the page
    assert next(page.all("html"))["lang"] == "en"


def html_titles(page) -> int:
    return len(list(page.all("title")))


def test_the_owners_page_says_on_its_first_line_that_it_is_private(private_audit, read, tmp_path):
    path = tmp_path / "report.html"
    write_report(private_audit, path)
    html = path.read_text(encoding="utf-8")
    assert "PRIVATE" in html.splitlines()[0]
    shown = read(html[html.index("<body>") : html.index("</body>") + len("</body>")]).text
    assert shown.startswith("Private. Shows original records")
    if os.name != "nt":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_audit_that_does_not_say_is_private(private_audit):
    del private_audit["private"], private_audit["notice"]
    assert "PRIVATE" in render_report(private_audit).splitlines()[0]


def test_the_public_page_shows_nothing_of_the_original(public_audit, read, tmp_path):
    path = tmp_path / "report.html"
    write_report(public_audit, path)
    html = path.read_text(encoding="utf-8")
    page = read(html)
    assert "private" not in html.splitlines()[0].lower()
    assert "iskiest" not in page.text
    assert "Original against release" not in page.text
    assert 'class="original"' not in html
    assert "11%" not in page.text  # missing in the original
    assert "25%" in page.text  # missing in the release
    if os.name != "nt":
        assert stat.S_IMODE(path.stat().st_mode) & 0o044 == 0o044


def test_a_public_page_leaves_out_what_a_faulty_audit_holds(private_audit, read):
    """Marked public by mistake: the page still shows no record and no histogram of the original."""
    private_audit["private"] = False
    html = render_report(private_audit)
    assert 'class="original"' not in html
    assert "977" not in read(html).text
    assert "Release minus original" not in html
    assert "-0.637" not in html


def test_the_same_audit_gives_the_same_bytes(private_audit):
    again = dict(reversed(copy.deepcopy(private_audit).items()))
    assert render_report(private_audit) == render_report(again)


def test_a_release_without_a_card(private_audit, read):
    private_audit["guarantee"] = None
    private_audit["release"] |= {"card": False, "mechanism": None, "space": None, "created": None}
    text = read(render_report(private_audit)).text
    assert "without a card" in text
    assert "Nothing is stated about this release" in text
    assert "epsilon" not in text.split("For experts Every attacker")[0].replace("epsilon 12.5", "")


PARTS = [
    "notice", "release", "guarantee", "threat_model", "attacks", "utility", "distributions", "correlations", "riskiest",
    "settings", "notes", "versions",
]  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_absent_and_empty_parts_are_survived(part, private_audit, read):
    without = {key: value for key, value in private_audit.items() if key != part}
    assert read(render_report(without)).stack == []
    assert read(render_report({**private_audit, part: type(private_audit[part])()})).stack == []


def test_an_audit_with_nothing_in_it_claims_nothing(read):
    text = read(render_report({})).text
    assert "Every attacker (no attacker was run; this says nothing about privacy)" in text
    assert "Nothing is stated about this release" in text
    assert "accuracy was not measured" in text


def test_a_secret_transform_is_said_not_shown(private_audit, read):
    reason = "the release mixes columns by a secret key"
    private_audit["distributions"] = [{"name": "age", "kind": "numeric", "not_applicable": reason}]
    private_audit["correlations"] |= {"original": None, "release": None, "distance": None, "not_applicable": reason}
    text = read(render_report(private_audit)).text
    assert text.count(f"({reason})") == 2


def test_thirty_columns_stay_small(private_audit, read):
    names = [f"measurement_{k}" for k in range(30)]
    first = private_audit["distributions"][0]
    private_audit["distributions"] = [
        {**first, "name": name, "edges": list(range(31)), "original": [k] * 30, "release": [7] * 30, "distance": k / 30}
        for k, name in enumerate(names)
    ]
    matrix = [[((i * 7 + j * 3) % 21 - 10) / 10 for j in range(30)] for i in range(30)]
    private_audit["correlations"] |= {"names": names, "original": matrix, "release": matrix[::-1]}
    html = render_report(private_audit)
    assert len(html) < 300_000
    page = read(html)
    assert "The 24 most distorted of 30 columns" in page.text
    shown = [attributes for attributes in page.all("svg") if attributes.get("class") == "hist"]
    assert len(shown) == 24


def test_the_word_is_never_used(private_audit, public_audit):
    for audit in (private_audit, public_audit):
        assert "anonym" not in render_report(audit).lower()
