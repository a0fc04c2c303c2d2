"""The report in a real browser: nothing runs off the side of a phone, and nothing on the page is refused."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sfumato.auditing.audit import audit
from sfumato.auditing.report.page import render_report
from sfumato.core.errors import PrivacyLeakWarning
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import write_table

pytestmark = pytest.mark.system

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--virtual-time-budget=3000",
    "--dump-dom",
]
# The page stands in a frame of the width to be tested: a browser's own window cannot be as narrow as a phone.
FRAME = """<!doctype html><body><iframe style="width:{width}px;height:900px;border:0" srcdoc="{page}"></iframe>
<pre id="found"></pre><script>
window.onload = () => {{
  const page = document.querySelector("iframe").contentDocument;
  const wide = [...page.querySelectorAll("body *")].filter(element => {{
    const box = element.getBoundingClientRect();
    return box.right > {width} + 1 && !element.closest(".scroll") && !element.closest("svg");
  }});
  document.getElementById("found").textContent = JSON.stringify({{
    scroll: page.documentElement.scrollWidth,
    wide: wide.map(element => element.tagName + "." + element.className).slice(0, 5),
    sections: page.querySelectorAll("section").length,
    color: page.defaultView.getComputedStyle(page.querySelector(".banner")).backgroundColor,
  }});
}};
</script></body>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a small mixed table with names and categories that are hard to lay out."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    people = 240
    columns = {f"measurement_number_{k}": rng.normal(size=people).round(3) for k in range(6)}
    columns["an_unreasonably_long_name_without_any_blank" * 4] = rng.normal(size=people).round(3)
    columns["VERYLONGNAMEWITHOUTANYPLACETOBREAKIT" * 4] = rng.normal(size=people).round(3)
    categories = ["a", "<script>alert(1)</script>", "Donaudampfschifffahrtsgesellschaftskapitaen" * 2, "d"]
    columns["colour"] = rng.choice(categories, people)
    columns["ill"] = rng.choice(["yes", "no"], people)
    table = pa.table(columns)
    inside, outside = folder / "inside.csv", folder / "outside.csv"
    write_table(table.slice(0, 180), inside)
    write_table(table.slice(180), outside)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        options = Options(mechanism="additive-noise", label="ill", ledger=folder / "ledger.json", unprotected=True)
        sanitize(inside, folder / "release", options)
        return render_report(audit(folder / "release", original=inside, holdout=outside, repeats=2).data)


@pytest.mark.skipif(BROWSER is None, reason="needs a browser: install Debian's package chromium")
@pytest.mark.parametrize("width", [320, 375, 768, 1280])
def test_nothing_runs_off_the_side(page: str, width: int, tmp_path: Path):
    found = looked_at(page, width, tmp_path)
    assert found["wide"] == []
    assert found["scroll"] <= width
    assert found["sections"] == page.count("<section") >= 5


@pytest.mark.skipif(BROWSER is None, reason="needs a browser: install Debian's package chromium")
def test_the_style_is_not_refused_by_the_pages_own_policy(page: str, tmp_path: Path):
    assert looked_at(page, 800, tmp_path)["color"] not in ("rgba(0, 0, 0, 0)", "transparent")


@pytest.mark.skipif(BROWSER is None, reason="needs a browser: install Debian's package chromium")
def test_a_page_that_is_too_wide_is_found(page: str, tmp_path: Path):
    """A check that cannot fail proves nothing."""
    spoilt = page.replace("<main>", '<main><div style="width:900px">wide</div>')
    found = looked_at(spoilt, 375, tmp_path)
    assert found["scroll"] > 375
    assert found["wide"]


def looked_at(page: str, width: int, folder: Path) -> dict[str, object]:
    """What a browser makes of the page in a frame of this width, with everything unfolded."""
    page = re.sub("<details[^>]*>", "<details open>", page)
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(width=width, page=html.escape(page)), encoding="utf-8")
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={folder / 'browser'}", frame.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<pre id="found">(.*?)</pre>', shown, re.DOTALL)
    assert found is not None
    return dict(json.loads(html.unescape(found[1])))
