"""Report, comparison and certificate in a real browser: axe finds nothing, nothing is too wide, no word is broken."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from seen import BROKEN, DESKTOP, UNFOLD, faults, looked_at

import sfumato as sf
from sfumato.auditing.report.page import write_report
from sfumato.core.errors import PrivacyLeakWarning
from sfumato.table import write_table

if TYPE_CHECKING:
    from playwright import sync_api

pytestmark = pytest.mark.system

KNOWN = {"source": "public", "reason": "the form"}
SCHEMA = sf.Schema(
    (
        sf.Column("age", "integer", low=0, high=120, **KNOWN),
        sf.Column("blood_pressure_systolic", "numeric", low=60, high=240, **KNOWN),
        sf.Column("blood_pressure_diastolic", "numeric", low=30, high=160, **KNOWN),
        sf.Column("ward", "categorical", categories=("surgery", "oncology", "paediatrics"), **KNOWN),
        sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN),
    )
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind: of a release that is proved, and of one that is not."""
    folder = tmp_path_factory.mktemp("pages")
    rng, people = np.random.default_rng(0), 150
    ill = rng.random(people) < 0.5
    pressure = np.clip(110 + 40 * ill + rng.normal(0, 12, people), 60, 240).round(1)
    table = pa.table(
        {
            "age": np.clip(45 + 20 * ill + rng.normal(0, 10, people), 0, 120).astype(int),
            "blood_pressure_systolic": pressure,
            "blood_pressure_diastolic": np.clip(0.6 * pressure, 30, 160).round(1),
            "ward": rng.choice(["surgery", "oncology", "paediatrics"], people),
            "ill": np.where(ill, "yes", "no"),
        }
    )
    inside, outside = folder / "inside.csv", folder / "outside.csv"
    write_table(table.slice(0, 110), inside)
    write_table(table.slice(110), outside)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        for name, words in (("proved", {"schema": SCHEMA}), ("measured", {"label": "ill", "unprotected": True})):
            made = sf.sanitize(inside, mechanism="additive-noise", epsilon_record=8, **words)
            where = made.save(folder / name)
            audit = sf.audit(made, original=inside, holdout=outside, repeats=1, out=where)
            found[f"report, {name}"] = folder / f"report-{name}.html"
            write_report(audit.data, found[f"report, {name}"])
            found[f"certificate, {name}"] = sf.certificate(where)
            found[f"certificate with audit, {name}"] = sf.certificate(
                where, with_audit=True, out=folder / f"{name}.html"
            )
        settings = {"mechanisms": ["square-wave", "additive-noise", "condensation"], "workers": 1}
        compared = sf.compare(inside, folder / "c", schema=SCHEMA, strengths=(0.4, 0.8), splits=1, **settings)
        found["comparison"] = compared.folder / "compare.html"
    return found


def test_axe_finds_nothing_and_no_page_is_wider_than_its_window(pages, browser):
    wrong = []
    for name, path in pages.items():
        page = shown(browser, path)
        wrong += faults(page, name)
        page.context.close()
    assert wrong == []


def test_no_contrast_is_left_undecided_outside_of_pictures(pages, browser):
    """Of text over a picture's shapes axe cannot tell; tests/report computes it for those that have a colour behind."""
    wrong = []
    for name, path in pages.items():
        page = shown(browser, path)
        page.set_viewport_size({"width": 2400, "height": 900})
        page.add_style_tag(content=".scroll { overflow: visible !important; }")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            nodes = [node for one in looked_at(page)["incomplete"] for node in one["nodes"]]
            wrong += [f"{name}, {scheme}: {one['html']}" for one in nodes if not one["html"].startswith("<text")]
        page.context.close()
    assert wrong == []


def test_the_first_tab_stop_leads_to_the_answer(pages, browser):
    for path in pages.values():
        page = shown(browser, path)
        page.keyboard.press("Tab")
        target = page.evaluate("document.activeElement.getAttribute('href')")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.query_selector(f"main{target}, main {target}")
        page.context.close()


def test_what_is_wrong_is_found(pages, browser):
    page = shown(browser, pages["certificate, proved"])
    page.evaluate("document.querySelector('main').innerHTML += '<p style=\"color: #999\">pale</p><td>'")
    page.evaluate("document.querySelector('h1').style.width = '4rem'")
    assert {one["id"] for one in looked_at(page)["violations"]} == {"color-contrast"}
    assert "Certificate" in page.evaluate(BROKEN)
    page.context.close()


def shown(browser: sync_api.Browser, path: Path) -> sync_api.Page:
    """The page with everything unfolded; its own policy would keep axe out."""
    page = browser.new_context(viewport=DESKTOP, bypass_csp=True).new_page()
    page.goto(path.as_uri())
    page.evaluate(UNFOLD)
    return page
