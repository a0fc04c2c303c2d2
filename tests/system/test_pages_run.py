"""Every page's blocks run, in order, from what the page says that its reader has."""

import pytest

from page_blocks import PAGES, ROOT, SHELL, blocks
from page_run import run_page

pytestmark = pytest.mark.system
ELSEWHERE = {"CONTRIBUTING.md"}
"""Run by tests/contracts/test_contributing.py."""
WITH_CODE = [
    page
    for page in PAGES
    if page.name not in ELSEWHERE
    and "papers" not in page.parts
    and any(block.language in {*SHELL, "python"} and block.reason is None for block in blocks(page))
]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_runs_as_it_stands(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page(page, tmp_path)
