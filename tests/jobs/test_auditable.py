"""Noise that an auditor can recompute: from the commitment to a release that is the same bit for bit, and tampering."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.core.errors import CardError, OutputError, SchemaError, UsageError
from sfumato.release import auditable
from sfumato.release.auditable import (
    Seed,
    answer,
    answer_of,
    committed,
    load_identity,
    new_auditor,
    run_key,
    seal,
    spoken,
    unsealed,
)
from sfumato.release.signature import content_digest, content_of
from sfumato.table import open_table

PUBLIC = {"source": "public", "reason": "the form"}
SCHEMA = sf.Schema(
    (
        sf.Column("age", "integer", low=0, high=120, **PUBLIC),
        sf.Column("income", "numeric", low=0, high=10_000, **PUBLIC),
        sf.Column("sex", "categorical", categories=("f", "m"), **PUBLIC),
        sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
    )
)
BLURRED = {"epsilon": 2.0, "trust": "nobody"}
MADE_UP = {"epsilon": 2.0}
WAYS = {
    "square-wave": BLURRED,
    "piecewise-noise": {"epsilon": 5.0, "trust": "nobody", "private_label": True},
    "grid": {"mechanism": "principal-laplace", "epsilon_record": 4.0, "parameters": {"basis": "identity"}},
    "made-up": MADE_UP,
    "stream": {**BLURRED, "engine": "stream"},
    "made-up, stream": {**MADE_UP, "engine": "stream"},
    "like the original": {**BLURRED, "like_original": True, "format": "csv"},
}


def people(rows=300):
    rng = np.random.default_rng(3)
    return {
        "age": rng.integers(18, 90, rows).tolist(),
        "income": rng.normal(3000, 800, rows).clip(0).tolist(),
        "sex": rng.choice(["f", "m"], rows).tolist(),
        "ill": rng.choice(["no", "yes"], rows).tolist(),
        "note": [f"patient {n}" for n in range(rows)],
    }


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger.json"))
    pq.write_table(pa.table(people()), tmp_path / "people.parquet")
    new_auditor(tmp_path / "auditor.key")
    return tmp_path


def asked(place, **more):
    return {
        "schema": SCHEMA,
        "out": place / "january",
        "auditable": place / "auditor.key.pub",
        **BLURRED,
        **more,
    }


def released(place, **more):
    """Both steps, with the auditor's answer between them."""
    options = asked(place, **more)
    table = place / "people.parquet"
    told = sf.commit(table, **options)
    value, _ = answer(told.published, place / "auditor.key")
    return sf.sanitize(table, **options, answer=value), value[:64]


def audited(place, release=None, **more):
    given = {
        "with_seed": place / "january.seed.age",
        "auditor_key": place / "auditor.key",
        "table": place / "people.parquet",
    }
    return sf.verify(release or place / "january", **{**given, **more})


def against(found):
    return " ".join(one.sentence for one in found.findings if one.state == "wrong")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_release_is_recomputed_bit_for_bit(place, way):
    release, _ = released(place, **{**dict.fromkeys(("epsilon", "trust")), "trust": "owner", **way})
    found = audited(place)
    assert found.ok, found.in_words()
    assert "Recomputed bit for bit" in found.in_words()
    assert release.card.is_formal
    assert not (place / "january.seed.secret").exists()
    ledger = (place / "ledger.json").read_bytes()
    audited(place)
    assert (place / "ledger.json").read_bytes() == ledger  # an audit is no release


def test_the_card_and_the_guarantee_name_the_auditor(place):
    release, value = released(place)
    public = (place / "auditor.key.pub").read_text().strip()
    card = release.card
    assert card.auditable == {
        "auditor": public,
        "commitment": json.loads((place / "january.commitment.json").read_text())["commitment"],
        "answer": value,
    }
    assert any("seed and release together are the table" in one for one in card.threat_model["not_protected"])
    assert any("The seed of the noise is known to the auditor alone" in one for one in card.guarantee["assumptions"])
    assert type(card).load(place / "january").auditable == card.auditable
    assert public in sf.verify(place / "january").in_words()


def test_two_releases_of_one_table_have_nothing_of_their_noise_in_common(place):
    one, _ = released(place)
    two, _ = released(place, out=place / "february")
    assert not np.array_equal(np.sort(one.Z[:, 0]), np.sort(two.Z[:, 0]))


def test_the_formulas_by_hand():
    """Every value once more, from the words of the documentation alone."""
    import hashlib
    import hmac

    def hkdf(secret, salt, info):
        return hmac.digest(hmac.digest(salt, secret, "sha256"), info + b"\x01", "sha256")

    s, r, table, parameters = bytes(range(32)), bytes(range(32, 64)), b"t" * 32, {"b": 1.5, "a": [1]}
    digest = hashlib.sha256(b'{"a": [1], "b": 1.5}').digest()
    commitment = hashlib.sha256(b"sfumato/auditable/commitment/1" + s + r + table + digest).hexdigest()
    assert committed(s, r, table, parameters) == commitment
    secret = bytes(range(100, 132))
    asked_for = hkdf(secret, bytes(32), b"sfumato/auditable/answer/1")
    found = hmac.digest(asked_for, bytes.fromhex(commitment), "sha256").hex()
    assert answer_of(secret, commitment) == found
    info = b"sfumato/auditable/run/1" + bytes.fromhex(commitment)
    assert run_key(s, commitment, found) == hkdf(s, bytes.fromhex(found), info)


def changed_table(place, change):
    table = pq.read_table(place / "people.parquet").to_pydict()
    change(table)
    pq.write_table(pa.table(table), place / "other.parquet")
    return place / "other.parquet"


CHANGES = {
    "a cell": lambda table: table["age"].__setitem__(7, table["age"][7] + 1),
    "a cell beyond its bounds": lambda table: table["age"].__setitem__(7, 121),
    "an empty cell": lambda table: table["income"].__setitem__(7, None),
    "a column that is not released": lambda table: table["note"].__setitem__(7, "another"),
    "two rows exchanged": lambda table: [column.reverse() for column in table.values()],
    "a row less": lambda table: [column.pop() for column in table.values()],
    "a column less": lambda table: table.pop("note"),
    "a column renamed": lambda table: table.__setitem__("notes", table.pop("note")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_another_table_is_found_by_owner_and_auditor(place, change):
    options = asked(place)
    told = sf.commit(place / "people.parquet", **options)
    value, _ = answer(told.published, place / "auditor.key")
    other = changed_table(place, change)
    with pytest.raises((UsageError, SchemaError), match="You committed to another table"):
        sf.sanitize(other, **options, answer=value)
    assert not (place / "january").exists()
    sf.sanitize(place / "people.parquet", **options, answer=value)
    assert "not the table that the owner committed to" in against(audited(place, table=other))


def test_other_parameters_are_refused(place):
    options = asked(place)
    told = sf.commit(place / "people.parquet", **options)
    value, _ = answer(told.published, place / "auditor.key")
    for other in ({"epsilon": 2.5}, {"out_of_bounds": "refuse"}, {"format": "csv"}, {"engine": "stream"}):
        with pytest.raises(UsageError, match="You committed to other parameters"):
            sf.sanitize(place / "people.parquet", **{**options, **other}, answer=value)
    assert not (place / "january").exists()


def resealed(place, change):
    """A dishonest owner, who has kept the seed: seals other things to the auditor, and puts them on the card."""
    auditor = load_identity(place / "auditor.key")
    told = json.loads(unsealed((place / "january.seed.age").read_bytes(), auditor))
    change(told)
    seed = Seed.from_json(json.dumps(told).encode())
    (place / "january.seed.age").write_bytes(seal(seed.to_json(), auditor.to_public()))
    return seed, auditor


def with_card(place, **entries):
    """The release with another card, beside its rows and inside their file."""
    card = json.loads((place / "january" / "card.json").read_text())
    card["auditable"].update(entries)
    text = json.dumps(card, indent=1)
    (place / "january" / "card.json").write_text(text)
    path = place / "january" / "release.parquet"
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"sfumato.card": text.encode()}), path)


LIES = {
    "another seed": lambda told: told.update(s="11" * 32),
    "another nonce": lambda told: told.update(r="11" * 32),
    "another table": lambda told: told.update(table="11" * 32),
    "another strength": lambda told: told["parameters"]["strength"]["parameters"].update(epsilon_record=9.0),
    "another format": lambda told: told["parameters"]["options"].update(format="csv"),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_seed_that_was_not_committed_to_is_found(place, lie):
    released(place)
    resealed(place, lie)
    assert "another seed than the one that the owner committed to" in against(audited(place))


@pytest.mark.parametrize("lie", [LIES["another seed"], LIES["another strength"]], ids=["seed", "strength"])
def test_a_commitment_that_was_made_up_afterwards_is_found(place, lie):
    """The owner also writes the commitment that fits the lie: no auditor answered it before."""
    released(place)
    seed, auditor = resealed(place, lie)
    with_card(place, commitment=seed.commitment)
    assert "The answer is not this auditor's" in against(audited(place))
    with_card(place, answer=answer_of(str(auditor).encode(), seed.commitment))  # and even with the auditor's help
    assert "not those that this seed leads to" in against(audited(place))


def test_an_answer_of_the_owners_own_is_found(place):
    """Seeds could be tried out with it: the release itself is what that answer leads to."""
    options = asked(place)
    told = sf.commit(place / "people.parquet", **options)
    sf.sanitize(place / "people.parquet", **options, answer=spoken(told.commitment.commitment, "ab" * 32))
    found = audited(place)
    assert not found.ok
    assert "the owner may have tried out seeds" in against(found)


def test_commitments_that_were_tried_out_are_counted(place):
    table, options = place / "people.parquet", asked(place)
    for _ in range(3):
        told = sf.commit(table, **options, force=True)
        value, number = answer(told.published, place / "auditor.key")
    assert answer(told.published, place / "auditor.key") == (value, 3) == (value, number)
    sf.sanitize(table, **options, answer=value)
    found = audited(place)
    assert found.ok
    assert any("answered 2 other commitments" in sentence for sentence in found.cannot_check)
    (place / "auditor.key.answered").unlink()
    assert any("auditor.key.answered is not here" in sentence for sentence in audited(place).cannot_check)


def test_2000_random_edits_of_rows_card_and_seed_are_never_believed(place):
    """Few of them here are recomputed: most are refused before."""
    released(place)
    rng, wrongly = random.Random(5), []
    rows = pq.read_table(place / "january" / "release.parquet")
    sealed = (place / "january.seed.age").read_bytes()
    auditor = load_identity(place / "auditor.key")
    for _ in range(2000):
        at, bit = rng.randrange(len(sealed)), 1 << rng.randrange(8)
        edited = sealed[:at] + bytes([sealed[at] ^ bit]) + sealed[at + 1 :]
        try:
            unsealed(edited, auditor)
            wrongly.append(at)
        except CardError:
            pass
    assert not wrongly
    for number in range(12):
        edited = rows.to_pydict()
        if number % 2:  # one cell, as little as can be
            name = rng.choice(["age", "income"])
            at = rng.choice([n for n, cell in enumerate(edited[name]) if cell is not None])
            edited[name][at] = math.nextafter(edited[name][at], math.inf)
        else:  # two rows exchanged
            one, other = rng.sample(range(len(rows)), 2)
            while all(cells[one] == cells[other] for cells in edited.values()):  # no edit at all
                one, other = rng.sample(range(len(rows)), 2)
            for cells in edited.values():
                cells[one], cells[other] = cells[other], cells[one]
        pq.write_table(pa.table(edited, schema=rows.schema), place / "january" / "release.parquet")
        assert not audited(place).ok


def test_a_seed_cannot_name_files_of_the_auditor(place):
    """Whoever seals a seed chooses what is in it: options that were not committed to are not taken from there."""
    released(place)
    seed, auditor = resealed(place, lambda told: told["parameters"]["options"].update(ledger=str(place / "x.json")))
    with_card(place, commitment=seed.commitment, answer=answer_of(str(auditor).encode(), seed.commitment))
    assert "Nothing can be made" in against(audited(place))
    assert not (place / "x.json").exists()


def test_another_auditor_opens_nothing(place):
    released(place)
    new_auditor(place / "other.key")
    assert "another auditor's key" in against(audited(place, auditor_key=place / "other.key"))
    sf.sanitize(people(), schema=SCHEMA, out=place / "plain", **BLURRED)
    assert "names no commitment" in against(audited(place, place / "plain"))


def test_another_version_is_told_and_not_judged(place, monkeypatch):
    released(place)
    now = auditable.here()
    monkeypatch.setattr(auditable, "here", lambda: {**now, "numpy": "9.9"})
    with pytest.raises(UsageError, match="was made with numpy"):
        audited(place)


REFUSED = {
    "--seed": {"seed": 1},
    "--experiment": {"experiment": True},
    "--dry-run": {"dry_run": True},
    "--only-new": {"only_new": True},
    "random-rotation": {"mechanism": "random-rotation", "epsilon": None, "trust": "owner"},
    "drawn exactly": {
        "mechanism": "additive-noise",
        "parameters": {"law": "normal", "scale": 0.3},
        "epsilon": None,
        "trust": "owner",
    },
    "--engine spark": {"engine": "spark"},
    "Add --out": {"out": None},
}


@pytest.mark.parametrize(("said", "more"), REFUSED.items(), ids=REFUSED)
def test_what_cannot_be_recomputed_is_refused_before_anything_is_written(place, said, more):
    before = sorted(place.iterdir())
    with pytest.raises(UsageError, match=said):
        sf.commit(place / "people.parquet", **asked(place, **more))
    assert sorted(place.iterdir()) == before


def test_errors_of_the_two_steps(place):
    options, table = asked(place), place / "people.parquet"
    with pytest.raises(UsageError, match="Commit to the noise first"):
        sf.sanitize(table, **options)
    with pytest.raises(UsageError, match="There is no commitment"):
        sf.sanitize(table, **options, answer="ab" * 32)
    with pytest.raises(UsageError, match="Give the key too"):
        sf.sanitize(table, schema=SCHEMA, out=place / "x", answer="ab" * 32, **BLURRED)
    told = sf.commit(table, **options)
    with pytest.raises(OutputError, match="committed to before"):
        sf.commit(table, **options)
    good = spoken(told.commitment.commitment, "ab" * 32)
    typos = [good[:at] + ("0" if good[at] != "0" else "1") + good[at + 1 :] for at in range(len(good))]
    other = spoken("00" * 32, "ab" * 32)  # of another commitment
    for bad in ("", "ab", "ab" * 32, good.upper(), good + "0", other, *typos):
        with pytest.raises(UsageError, match="not an answer to this commitment, or was copied wrongly"):
            sf.sanitize(table, **options, answer=bad)
    told.secret.chmod(0o644)
    with pytest.raises(CardError, match="can be read by others"):
        sf.sanitize(table, **options, answer="ab" * 32)
    told.secret.chmod(0o600)
    told.secret.write_text("{}")
    with pytest.raises(CardError, match="is damaged"):
        sf.sanitize(table, **options, answer="ab" * 32)
    with pytest.raises(UsageError, match="is a secret key"):
        sf.commit(table, **{**options, "auditable": place / "auditor.key"})
    for given in ({"with_seed": told.sealed}, {"auditor_key": place / "auditor.key"}, {"table": table}):
        with pytest.raises(UsageError, match="needs --with-seed, --auditor-key and --table"):
            sf.verify(place, **given)


def test_the_secret_is_private_and_stands_nowhere_else(place):
    """In no file but the secret's own, while it waits; in none afterwards, ledger and unfinished folder included."""
    options = asked(place, engine="stream")
    told = sf.commit(place / "people.parquet", **options)
    assert told.secret.stat().st_mode & 0o077 == 0
    seed = json.loads(told.secret.read_text())
    value, _ = answer(told.published, place / "auditor.key")
    hidden = [seed["s"].encode(), seed["r"].encode(), bytes.fromhex(seed["s"]), bytes.fromhex(seed["r"])]
    key = run_key(bytes.fromhex(seed["s"]), told.commitment.commitment, value[:64])

    def stop(step, *_):
        if step == "Writing":
            for path in place.rglob("*"):
                content = path.read_bytes() if path.is_file() and path != told.secret else b""
                assert not any(one in content for one in [*hidden, key, key.hex().encode()]), path
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sf.sanitize(place / "people.parquet", **options, answer=value, progress=stop)
    assert told.secret.exists()
    sf.sanitize(place / "people.parquet", **options, answer=value)
    assert not told.secret.exists()
    for path in place.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not any(one in content for one in [*hidden, key, key.hex().encode()]), path
    assert audited(place).ok


def test_content_is_the_same_whichever_way_a_table_came(tmp_path):
    """From memory, Parquet and CSV, whatever the sizes of blocks, codes and widths."""
    table = pa.table(
        {
            "n": pa.array([1, None, -3] * 400, pa.int16()),
            "x": pa.array([0.5, -0.0, None] * 400, pa.float64()),
            "t": pa.array(["a", "äö", None] * 400).dictionary_encode(),
        }
    )
    plain = content_of(open_table(table))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=7)
    assert content_of(open_table(tmp_path / "t.parquet")) == plain
    chunks = pa.concat_tables([table.slice(start, 13) for start in range(0, 1200, 13)])
    assert content_of(open_table(chunks)) == plain
    other = table.set_column(1, "x", pa.array([0.5, 0.0, None] * 400))
    assert [name for name in plain if content_of(open_table(other))[name] != plain[name]] == ["x"]
    assert content_digest(plain) != content_digest(dict(reversed(plain.items())))
    moved = table.set_column(2, "t", pa.array(["aä", "ö", None] * 400))
    assert content_of(open_table(moved))["t"] != plain["t"]
