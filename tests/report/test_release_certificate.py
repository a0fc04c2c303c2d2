"""A release on one page: what it says comes from the card, unless the owner adds what a private audit measured."""

from __future__ import annotations

import hashlib

import pytest

import sfumato as sf
from sfumato.core.errors import CardError, OutputError, UsageError

KNOWN = {"source": "public", "reason": "the form"}
SCHEMA = sf.Schema(
    (
        sf.Column("age", "integer", low=0, high=120, **KNOWN),
        sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN),
    )
)
PEOPLE = {"age": [34, 61, 47, 29, 52] * 8, "ill": ["no", "yes", "yes", "no", "no"] * 8}


@pytest.fixture
def release(tmp_path):
    made = sf.sanitize(PEOPLE, schema=SCHEMA, mechanism="additive-noise", epsilon_record=2)
    return made, made.save(tmp_path / "release")


def test_the_proof_comes_first_and_may_be_handed_on(release):
    """Whether or not the owner audited: what was measured are facts about private rows."""
    made, folder = release
    sf.audit(made, original=PEOPLE, repeats=0, attacks=["naive-estimate", "nearest-source"], out=folder)
    page = sf.certificate(folder)
    text = page.read_text()
    first = text.index("WHAT IS PROVED")
    assert first < text.index(
        "from 1 chance in 10 to at most 4.6 in 10 (epsilon 2 for values, one row each, all releases counted)"
    )
    assert text.index("Not hidden") < text.index("What was released")
    assert "the ranges the owner declared (2, reason" in text
    assert "2 ranges by the owner&#39;s word (not checked):" in text
    for words in ("Whose row is it?", "of 100", "YOUR DECISION", "without the release", "PRIVATE", "you declared"):
        assert words not in text
    assert hashlib.sha256((folder / "release.parquet").read_bytes()).hexdigest() in text
    assert page.stat().st_mode & 0o044
    with pytest.raises(OutputError, match="exists already"):
        sf.certificate(folder)


def test_measured_figures_only_if_the_owner_says_so(release, tmp_path):
    made, folder = release
    with pytest.raises(UsageError, match="Leave --with-audit out, or make one"):
        sf.certificate(folder, with_audit=True)
    sf.audit(made, original=PEOPLE, repeats=0, attacks=["naive-estimate", "nearest-source"], out=folder)
    page = sf.certificate(folder, out=tmp_path / "page.html", with_audit=True)
    text = page.read_text()
    assert "PRIVATE" in text
    assert page.stat().st_mode & 0o077 == 0
    for word in ("WHAT IS PROVED", "Whose row is it?", "Learn a value?", "Pick out one?", "not tried: ", "Of use?"):
        assert word in text
    assert "YOUR DECISION" not in text


def test_what_is_not_proved_is_not_called_so(tmp_path):
    with pytest.warns(sf.PrivacyLeakWarning):
        made = sf.sanitize(PEOPLE, label="ill", mechanism="additive-noise", epsilon_record=2)
    text = sf.certificate(made.save(tmp_path / "release")).read_text()
    assert "Measured, not proved: the range of column &#39;age&#39; was read off the table" in text
    assert "chance in 10" not in text
    assert "your" not in text[text.index("<main") :]


def test_every_format_of_the_rows_has_its_hash_and_a_broken_audit_is_told(release, tmp_path):
    made, folder = release
    other = made.save(tmp_path / "other", format="dta")
    assert hashlib.sha256((other / "release.dta").read_bytes()).hexdigest() in sf.certificate(other).read_text()
    (folder / "audit.json").write_text("{}")
    with pytest.raises(CardError, match="Audit the release again"):
        sf.certificate(folder, with_audit=True)


def test_a_folder_without_a_card_is_refused(tmp_path):
    with pytest.raises(CardError):
        sf.certificate(tmp_path)
