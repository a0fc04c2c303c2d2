"""How a page looks in a browser: what axe finds, whether it is wider than its window, which words are broken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright import sync_api

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SIZES = (DESKTOP, PHONE, {"width": 640, "height": 450})
"""A desk, a telephone, and the desk at 200%."""
RULES = {
    # What WCAG 2.2 added is off unless it is asked for. Figures and signs of one character are text here.
    "rules": {"target-size": {"enabled": True}},
    "checks": {"color-contrast": {"options": {"ignoreLength": True, "ignoreUnicode": False}}},
}
UNFOLD = "document.querySelectorAll('details').forEach(one => { one.open = true; })"
BROKEN = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), broken = [];
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const parent = text.parentElement;
    if (parent.closest("svg, .hash, pre") || getComputedStyle(parent).writingMode !== "horizontal-tb") continue;
    for (const word of text.data.matchAll(/(?<![\\p{L}\\p{N}])\\p{L}{2,20}(?![\\p{L}\\p{N}])/gu)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = [...range.getClientRects()].filter(box => box.width > 0).map(box => Math.round(box.top));
      if (new Set(lines).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""


def looked_at(page: sync_api.Page) -> dict[str, list[dict]]:
    """What axe says of the page as it stands."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    return axe.run(page, options={**RULES, "resultTypes": ["violations", "incomplete"]}).response


def faults(page: sync_api.Page, name: str) -> list[str]:
    """Everything that is wrong with a page, unfolded, at all sizes, light and dark; its own policy must be off."""
    wrong = []
    page.evaluate(UNFOLD)
    for size in SIZES:
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            where = f"{name}, {size['width']}, {scheme}"
            wrong += [f"{where}: {one['id']} {one['nodes'][0]['html']}" for one in looked_at(page)["violations"]]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wrong.append(f"{name}, {size['width']}: wider than the window")
        wrong += [f"{name}, {size['width']}: {word} is broken" for word in page.evaluate(BROKEN)]
    return wrong
