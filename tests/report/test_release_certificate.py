"""A release on one page: what it says comes from the card, figures of a private audit make it private."""

from __future__ import annotations

import hashlib

import pytest

import sfumato as sf
from sfumato.errors import CardError, OutputError

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


def test_without_an_audit_it_tells_what_the_card_tells_and_may_be_shown(release):
    _, folder = release
    page = sf.certificate(folder)
    text = page.read_text()
    assert "local-dp" in text
    assert "from 1 chance in 10 to at most" in text
    assert hashlib.sha256((folder / "release.parquet").read_bytes()).hexdigest() in text
    assert "Nothing: there is no audit" in text
    assert "PRIVATE" not in text
    assert page.stat().st_mode & 0o044
    with pytest.raises(OutputError, match="exists already"):
        sf.certificate(folder)


def test_with_a_private_audit_the_page_is_the_owners(release, tmp_path):
    made, folder = release
    sf.audit(made, original=PEOPLE, repeats=0, attacks=["naive-estimate", "nearest-source"], out=folder)
    page = sf.certificate(folder, out=tmp_path / "page.html")
    text = page.read_text()
    assert "PRIVATE" in text
    assert page.stat().st_mode & 0o077 == 0
    for word in (
        "singling out",
        "linkability",
        "inference",
        "nearest-source",
        "not tried: no attacker of this kind was asked for",
    ):
        assert word in text


def test_every_format_of_the_rows_has_its_hash_and_a_broken_audit_is_told(release, tmp_path):
    made, folder = release
    other = made.save(tmp_path / "other", format="dta")
    assert hashlib.sha256((other / "release.dta").read_bytes()).hexdigest() in sf.certificate(other).read_text()
    (folder / "audit.json").write_text("{}")
    with pytest.raises(CardError, match="Audit the release again"):
        sf.certificate(folder)


def test_a_folder_without_a_card_is_refused(tmp_path):
    with pytest.raises(CardError):
        sf.certificate(tmp_path)
