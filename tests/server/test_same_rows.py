"""Rows are known again whatever their order and file, and rows in common are told from chance."""

import base64

import consortium
import numpy as np
import pyarrow.parquet as pq
import pytest
from consortium import rewritten

from daily import first_daily
from sfumato.study.server.store.release_store import overlap
from sfumato.study.server.validation.row_identity import SKETCH_ROWS, RowIdentity, Sketch


def identified(matrix, codes=None, block=1000):
    held = RowIdentity(matrix.shape[1])
    codes = np.zeros(len(matrix), dtype=np.int64) if codes is None else codes
    for start in range(0, len(matrix), block):
        held.add(matrix[start : start + block], codes[start : start + block])
    return held


def sketch(matrix):
    return Sketch.from_bytes(base64.b64decode(identified(matrix).sketch))


REWRITINGS = {
    "reordered": lambda body, folder: rewritten(body, folder, lambda t: t.take(np.arange(t.num_rows)[::-1])),
    "recompressed": lambda body, folder: rewritten(body, folder, compression="gzip"),
    "regrouped": lambda body, folder: rewritten(body, folder, row_group_size=7, use_dictionary=False),
    "another date on the card": lambda body, folder: rewritten(
        body, folder, card=lambda text: text.replace(b'"created": "20', b'"created": "19')
    ),
}


@pytest.mark.parametrize("rewrite", REWRITINGS.values(), ids=REWRITINGS)
def test_the_same_rows_in_another_file_are_refused(study, body, tmp_path, rewrite):
    a, b = study.invite("A"), study.invite("B")
    assert study.push(body, a).status_code == 201
    again = rewrite(body, tmp_path)
    assert consortium.sha(again) != consortium.sha(body)
    for token, purpose, status, code in (
        (a, "train", 409, "same-rows"),
        (a, "test", 409, "other-purpose"),
        (b, "train", 409, "pushed-elsewhere"),
        (b, "test", 409, "pushed-elsewhere"),
    ):
        answer = study.push(again, token, purpose=purpose)
        assert (answer.status_code, answer.json()["error"]) == (status, code), answer.text
    assert study.call("DELETE", f"/releases/{consortium.sha(body)}", a).status_code == 204
    assert study.push(again, a).status_code == 410
    assert len(study.store.releases.all(study.id)) == 1
    folder = study.client.app.state.settings.data / "releases" / study.id
    assert list(folder.glob("*")) == []


def test_rows_to_test_with_that_are_partly_rows_to_train_with_are_shown(study, tmp_path):
    a, b = study.invite("A"), study.invite("B")
    first, second = consortium.release(tmp_path, rows=200), consortium.release(tmp_path, rows=200, seed=1)

    def half(table):
        (tmp_path / "first.parquet").write_bytes(first)
        known = pq.read_table(tmp_path / "first.parquet").slice(0, 100)
        return type(table).from_batches([*known.to_batches(), *table.slice(0, 100).to_batches()], table.schema)

    mixed = rewritten(second, tmp_path, half)
    assert study.push(first, a).status_code == 201
    assert study.push(mixed, b, purpose="test").status_code == 201
    (pair,) = study.call("GET", "/shared-rows").json()
    half_of_them = pytest.approx(0.5, abs=0.011)  # noise is not seeded: once in a hundred, two strangers coincide
    assert (pair["site"], pair["purpose"], pair["share"]) == ("B", "test", half_of_them)
    assert (pair["other_site"], pair["other_purpose"], pair["other_share"]) == ("A", "train", half_of_them)
    assert pair["expected"] == 0.0
    assert study.call("GET", "/shared-rows", a).status_code == 403


def test_identity_is_that_of_a_multiset():
    rng = np.random.default_rng(0)
    rows, codes = rng.normal(size=(5000, 4)), rng.integers(0, 3, 5000)
    held, order = identified(rows, codes), rng.permutation(5000)
    again = identified(rows[order], codes[order], block=77)
    assert (again.identity, again.sketch) == (held.identity, held.sketch)
    assert identified(np.where(rows == 0, -0.0, rows), codes).identity == held.identity
    other = rows.copy()
    other[17, 2] += 1e-3
    assert identified(other, codes).identity != held.identity
    assert identified(rows, np.where(np.arange(5000) == 9, (codes + 1) % 3, codes)).identity != held.identity
    twice = np.vstack([rows[:2], rows[:1]])
    assert len({identified(part).identity for part in (rows[:2], twice, np.vstack([rows[:2], rows[1:2]]))}) == 3


@pytest.mark.parametrize(("shared", "rows"), [(0.0, 50_000), (0.02, 50_000), (0.5, 50_000), (1.0, 50_000), (0.1, 400)])
def test_shared_rows_are_estimated(shared, rows):
    """A share of p, from 1,024 hashes: within four standard deviations; exact where all rows are in the sketch."""
    rng, common = np.random.default_rng(int(rows * shared)), int(shared * rows)
    a = rng.normal(size=(rows, 2))
    b = np.vstack([a[:common], rng.normal(size=(2 * rows - common, 2))])
    found = overlap(sketch(a), sketch(b))
    for share, true in ((found.mine, shared), (found.theirs, shared / 2)):
        error = 4 * np.sqrt(true * (1 - true) / SKETCH_ROWS) if rows > SKETCH_ROWS else 1e-12
        assert share == pytest.approx(true, abs=error + 0.001)
    assert found.expected < 0.01
    assert found.beyond_chance is (shared > 0)


def test_single_precision_is_shown_as_the_same_rows():
    rows = np.random.default_rng(3).laplace(size=(20_000, 6))
    found = overlap(sketch(rows), sketch(rows.astype(np.float32).astype(np.float64)))
    assert found.mine > 0.9
    assert found.beyond_chance


@pytest.mark.parametrize(("columns", "rows"), first_daily([(4, 60), (8, 400), (10, 1000), (14, 5000)], 2))
def test_categories_that_coincide_by_chance_are_expected_to(columns, rows):
    """Two hundred pairs of honest releases of different people: what is expected is what is found, and none is shown;
    a third of the rows copied is, where chance leaves any room."""
    rng, found, expected, shown, copied = np.random.default_rng(columns), [], [], 0, 0
    for _ in range(200 if rows < 2000 else 40):
        a, b = (rng.random((2, rows, columns)) < 0.35).astype(np.float64)
        one = overlap(sketch(a), sketch(b))
        found.append(one.mine)
        expected.append(one.expected)
        shown += one.beyond_chance
        b[: rows // 3] = a[: rows // 3]
        copied += overlap(sketch(a), sketch(b)).beyond_chance
    assert shown == 0
    assert np.mean(expected) == pytest.approx(np.mean(found), abs=0.05)
    if np.mean(found) < 0.5:
        assert copied == len(found)
