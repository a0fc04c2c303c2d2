"""Nothing that was learned from people's rows passes as public when it comes back as a parameter or a key."""

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest

from domains import PUBLIC, any_records
from sfumato.core.errors import SchemaError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP, Key
from sfumato.guarantee.card import recomputed as recomputed_guarantee
from sfumato.guarantee.guarantee import CENTRAL_DP
from sfumato.guarantee.maps import Learned, direction_hashes, is_remembered, lent_by, telling
from sfumato.ledger import Ledger
from sfumato.mechanisms import MECHANISMS
from sfumato.mechanisms.central.plan import public_plan
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Encoding, Schema

ROOT = Path(__file__).resolve().parent.parent.parent
LABEL = Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC)
NUMBERS = Schema((*(Column(f"x{j}", "numeric", low=0, high=1, **PUBLIC) for j in range(5)), LABEL))
CHOICES = Schema((*(Column(f"q{j}", "categorical", categories=("a", "b", "c"), **PUBLIC) for j in range(4)), LABEL))
REASON = "the state office publishes it"


def people(schema, seed=0, rows=200):
    encoding, rng = Encoding(schema), np.random.default_rng(seed)
    X = any_records(encoding, rng, rows)
    y = (X[:, 0] + 0.5 * rng.random(rows) > 0.7).astype(int)
    return encoding.decode(X, like_original=True).append_column("ill", encoding.decode_label(y))


@pytest.fixture
def release(tmp_path):
    """Sanitize one table after another; `ledger` None is the owner's own one."""
    counter = iter(range(100))

    def run(mechanism, schema, ledger=None, seed=None, key=None, rows=0, **parameters):
        options = Options(mechanism=mechanism, parameters=parameters, schema=schema, ledger=ledger, seed=seed, key=key)
        folder = tmp_path / f"release{next(counter)}"
        return sanitize(people(schema, seed=rows), folder, options).card

    return run


def assert_learned(card, words="another release"):
    assert card.guarantee["kind"] == EMPIRICAL
    assert any(words in reason for reason in card.guarantee["in_the_way"])
    assert recomputed_guarantee(card).kind == EMPIRICAL
    assert not any("is public" in told for told in card.guarantee["assumptions"])


def test_guidance_of_a_card_pasted_into_the_next_release(release, tmp_path):
    first = release("guided-projection", CHOICES)
    pasted = first.transform["guidance"]
    assert_learned(first, "directions in which the classes differ")
    assert_learned(release("guided-projection", CHOICES, guidance=pasted))
    assert_learned(release("guided-projection", CHOICES, guidance=pasted, guidance_reason=REASON))
    assert_learned(release("guided-projection", CHOICES, rows=7, guidance=pasted, guidance_reason=REASON))
    first.save(tmp_path / "card.json")
    for ledger in (None, tmp_path / "other.json"):
        card = release(
            "guided-projection",
            CHOICES,
            ledger,
            guidance=str(tmp_path / "card.json"),
            guidance_reason=REASON,
        )
        assert_learned(card)
    turned = -np.frombuffer(base64.b64decode(pasted), "<f8")
    assert_learned(
        release("guided-projection", CHOICES, guidance=base64.b64encode(turned.tobytes()).decode(), guidance_reason="I")
    )


def test_guidance_from_elsewhere_needs_a_reason_and_no_more(release, tmp_path):
    release("guided-projection", CHOICES)
    V = np.linalg.qr(np.random.default_rng(9).normal(size=(12, 2)))[0]
    text = base64.b64encode(np.ascontiguousarray(V).tobytes()).decode()
    undeclared = release("guided-projection", CHOICES, guidance=text)
    assert undeclared.guarantee["kind"] == recomputed_guarantee(undeclared).kind == EMPIRICAL
    assert "guidance_reason" in undeclared.guarantee["in_the_way"][0]
    for empty in ("", "  "):
        assert release("guided-projection", CHOICES, guidance=text, guidance_reason=empty).is_formal is False
    declared = release("guided-projection", CHOICES, guidance=text, guidance_reason=REASON)
    assert declared.guarantee["kind"] == recomputed_guarantee(declared).kind == LOCAL_DP
    assert f"The guidance is public: {REASON}" in declared.guarantee["assumptions"]
    (tmp_path / "card.json").write_text("{}")
    with pytest.raises(Exception, match="not such a card"):
        release("guided-projection", CHOICES, guidance=str(tmp_path / "card.json"))


def test_a_basis_copied_by_hand_digits_cut_off_and_rows_left_out(release):
    first = release("principal-laplace", NUMBERS)
    matrix = np.array(first.transform["matrix"])
    copies = [
        matrix,
        -matrix,
        matrix[1:],
        matrix[::-1],
        3 * matrix,
        np.round(matrix, 7),
        np.vstack([np.eye(5), matrix]),
    ]
    for copy in copies:
        assert_learned(release("principal-laplace", NUMBERS, basis=copy.tolist(), basis_reason=REASON))
    drawn = np.linalg.qr(np.random.default_rng(3).normal(size=(5, 5)))[0]
    for public in (drawn, np.eye(5), np.ones((1, 5)), matrix @ drawn):
        card = release("principal-laplace", NUMBERS, basis=public.tolist(), basis_reason=REASON)
        assert card.guarantee["kind"] == recomputed_guarantee(card).kind == LOCAL_DP
    blank = release("principal-laplace", NUMBERS, basis=drawn.tolist(), basis_reason=" ")
    assert blank.guarantee["kind"] == recomputed_guarantee(blank).kind == EMPIRICAL


def test_a_trial_run_is_remembered_too(release):
    first = release("principal-laplace", NUMBERS, seed=1)
    basis = first.transform["matrix"]
    assert_learned(release("principal-laplace", NUMBERS, basis=basis, basis_reason=REASON))


def test_a_rotation_made_of_learned_directions(release, tmp_path):
    learned = release("principal-laplace", NUMBERS, components=5)
    encoding = Encoding(NUMBERS)
    for name, matrix, kind in (
        ("learned", np.array(learned.transform["matrix"]), EMPIRICAL),
        ("drawn", np.linalg.qr(np.random.default_rng(5).normal(size=(5, 5)))[0], LOCAL_DP),
    ):
        arrays = {"matrix": matrix, "centre": np.full(5, 0.5)}
        Key.draw("random-rotation", encoding.fingerprint(), arrays).save(tmp_path / name)
        card = release("random-rotation", NUMBERS, key=tmp_path / name, noise="laplace", scale=2.0)
        assert card.guarantee["kind"] == recomputed_guarantee(card).kind == kind


def test_another_owner_is_found_out_by_the_cards_a_coordinator_holds(release, tmp_path):
    """A ledger knows nothing of another site's learning; a coordinator that holds its card does."""
    for mechanism, schema, given in (
        ("principal-laplace", NUMBERS, "basis"),
        ("guided-projection", CHOICES, "guidance"),
    ):
        first = release(mechanism, schema)
        pasted = first.transform["matrix" if given == "basis" else "guidance"]
        second = release(mechanism, schema, tmp_path / "other.json", **{given: pasted, f"{given}_reason": REASON})
        assert second.is_formal
        assert lent_by(second, [first])
        assert not lent_by(second, [second])
        assert not lent_by(first, [first])  # it says itself that it was learned
        other = release(mechanism, schema, rows=5)
        assert not lent_by(second, [other])


def test_a_ledger_of_an_earlier_version_is_read_and_kept(tmp_path):
    path = tmp_path / "ledger.json"
    ledger = Ledger(path)
    ledger.record("f", mechanism="additive-noise", epsilon=1.0, when="2026-01-01")
    rows = np.random.default_rng(0).normal(size=(3, 6))
    assert not Ledger(path).has_learned(rows)
    hashed = json.loads(path.read_text()) | {"learned": direction_hashes(ledger.key, rows)}  # as 0.2.0 noted them
    path.write_text(json.dumps(hashed))
    assert Ledger(path).has_learned(rows[2:])
    other = np.random.default_rng(1).normal(size=(3, 6))
    ledger.remember_learned(other, 200)
    again = Ledger(path)
    assert again.has_learned(other[2:])
    assert again.has_learned(rows[2:])
    assert again.earlier("f").count == 1
    before = path.read_text()
    again.remember_learned(-other[:0], 200)
    again.remember_learned(other, 200)
    assert path.read_text() == before


def test_secret_directions_are_kept_as_hashes_alone(release, tmp_path):
    """A ledger that is stolen must not undo a rotation."""
    ledger = tmp_path / "own.json"
    options = Options(mechanism="random-rotation", schema=NUMBERS, ledger=ledger, search=2, key=tmp_path / "key.json")
    sanitize(people(NUMBERS), tmp_path / "rotated", options)
    kept = json.loads(ledger.read_text())
    assert kept["learned"]
    assert "directions" not in kept
    release("guided-projection", CHOICES, ledger)
    assert len(json.loads(ledger.read_text())["directions"]) == 1


@pytest.mark.parametrize("noise", [0.0, 3e-6, 1e-5, 3e-5, 1e-4])
def test_directions_that_were_moved_a_little_are_recognised(release, noise, tmp_path):
    """Two samples of 200 rows differ by far more. Before, three directions of four escaped at 1e-5, and all at 3e-5."""
    rng = np.random.default_rng(0)
    for mechanism, schema, given in (
        ("principal-laplace", NUMBERS, "basis"),
        ("guided-projection", CHOICES, "guidance"),
    ):
        first = release(mechanism, schema)
        if given == "basis":
            pasted = np.array(first.transform["matrix"])
            moved = [pasted + noise * rng.normal(size=pasted.shape) for _ in range(50)]
            second = moved[0].tolist()
        else:
            pasted = np.frombuffer(base64.b64decode(first.transform["guidance"]), "<f8").reshape(12, -1)
            turned = [np.linalg.qr(pasted + noise * rng.normal(size=pasted.shape))[0] for _ in range(50)]
            moved = [V.T for V in turned]
            second = base64.b64encode(np.ascontiguousarray(turned[0]).tobytes()).decode()
        assert all(Ledger().has_learned(rows) for rows in moved)
        assert all(Ledger().has_learned(rows[-1:]) for rows in moved)
        told = {given: second, f"{given}_reason": REASON}
        assert_learned(release(mechanism, schema, **told))
        elsewhere = release(mechanism, schema, tmp_path / "other.json", **told)
        assert elsewhere.is_formal
        assert lent_by(elsewhere, [first]), "a coordinator compares as a ledger does"


def components(rows):
    values, vectors = np.linalg.eigh(np.cov(rows.T))
    return vectors[:, ::-1].T, values[::-1]


@pytest.mark.parametrize("width", [3, 6, 12])
def test_what_owes_nothing_to_the_rows_is_not_taken_for_learned(width):
    """Neither a basis of other people of the same population, nor the population's own directions."""
    rng = np.random.default_rng(width)
    mistaken = 0
    for _ in range(300):
        mixing = rng.normal(size=(width, width)) * np.geomspace(1, 0.2, width)
        n, m = (int(10 ** rng.uniform(1.7, 3.5)) for _ in range(2))
        sample, other = (rng.uniform(-1, 1, size=(k, width)) @ mixing for k in (n, m))
        matrix, variances = components(sample)
        learned = Learned.of(matrix, n, variances)
        mistaken += learned.has(components(other)[0])
        mistaken += learned.has(np.linalg.svd(mixing)[2])
    assert mistaken <= 4, "1 in 1000 is allowed"


@pytest.mark.parametrize("width", [2, 7])
def test_a_direction_reaches_as_far_as_is_said(monkeypatch, width):
    """The share of samples whose first component lies within reach of the population's is the stated one."""
    monkeypatch.setattr("sfumato.guarantee.maps.BY_CHANCE", 0.3)
    rng = np.random.default_rng(width)
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
    spread = np.geomspace(1.0, 0.3, width)
    near = 0
    for _ in range(1500):
        matrix, variances = components(rng.normal(size=(400, width)) * spread @ turn)
        near += Learned.of(matrix[:1], 400, variances).has(turn[:1])
    assert near / 1500 == pytest.approx(0.3, abs=0.06)


def test_hashes_tell_nothing_without_the_key_and_forget_what_anybody_writes_down():
    rows = np.random.default_rng(1).normal(size=(40, 30))
    hashes = direction_hashes(b"a" * 32, rows)
    assert is_remembered(b"a" * 32, rows, hashes)
    assert not is_remembered(b"b" * 32, rows, hashes)
    assert len(hashes) <= 3 * 24
    plain = np.vstack([np.eye(4), np.ones((1, 4)), [[1, -1, 0, 0]], np.zeros((1, 4))])
    assert len(telling(plain)) == 0
    rounded = np.round(rows / np.linalg.norm(rows, axis=1)[:, None], 6)
    found = [is_remembered(b"a" * 32, row, hashes) for row in rounded[:24]]
    assert sum(found) > 20  # six digits are enough for nearly every single direction


# Every parameter is classified in docs/limits.md


def classified() -> dict[tuple[str, str], str]:
    """(mechanism, parameter) -> what the table of docs/limits.md says of it."""
    text = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    part = text.split("## What could be learned")[1].split("\n## ")[0]
    found = {}
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        mechanism = cells[0].strip("`")
        if len(cells) != 4 or (mechanism == "any" and not re.fullmatch(r"(`[a-z_]+`(, )?)+", cells[1])):
            continue
        for parameter in re.findall(r"`([a-z_]+)`", cells[1]):
            having = [name for name, made in MECHANISMS.items() if parameter in made._get_param_names()]
            for name in [mechanism] if mechanism in MECHANISMS else having if mechanism == "any" else []:
                found[name, parameter] = f"{cells[2]}; {cells[3]}"
    return found


def test_a_plan_says_where_its_bins_and_pairs_come_from(release):
    """Quantiles of private rows do not become public by what somebody calls the plan."""
    plan = public_plan(Encoding(NUMBERS), [("x0", "x1")], REASON).to_dict()
    card = release("tree-resampling", NUMBERS, plan=plan)
    assert card.guarantee["kind"] == recomputed_guarantee(card).kind == CENTRAL_DP
    assert f"The plan's pairs of columns are public: {REASON}" in card.guarantee["assumptions"]

    def changed(**of_column):
        columns = [plan["columns"][0] | {"edges": [3, 400, 900], "coarse": None} | of_column, *plan["columns"][1:]]
        return {**plan, "chosen_by": "public rules", "columns": columns}

    with pytest.raises(SchemaError, match="bins of 'x0' follow the public rule, and they do not"):
        release("tree-resampling", NUMBERS, plan=changed())
    words = "does not say where its bins of x0 come from"
    for silent in ({"source": "learned"}, {"source": "public"}, {"source": "public", "reason": " "}):
        assert_learned(release("tree-resampling", NUMBERS, plan=changed(**silent)), words)
    card = release("tree-resampling", NUMBERS, plan=changed(source="public", reason="the clinic's age bands"))
    assert card.guarantee["kind"] == CENTRAL_DP
    assert "The plan's bins of x0 are public: the clinic's age bands" in card.guarantee["assumptions"]
    for pairs in ({"source": "public", "reason": ""}, {}):
        assert_learned(release("tree-resampling", NUMBERS, plan={**plan, "pairs": pairs}), "its pairs of columns")
    unsaid = {"format": plan["format"], "version": 1, "chosen_by": "public rules", "order": plan["order"]}
    unsaid["columns"] = [{name: one[name] for name in ("name", "edges", "coarse")} for one in plan["columns"]]
    assert_learned(release("tree-resampling", NUMBERS, plan=unsaid), "bins of x0, bins of x1, bins of x2 and 3 more")


def test_a_given_centre_may_owe_something_to_the_rows(release):
    """The means of the table as a centre would stand on a card that claims to rest on public things alone."""
    card = release("random-rotation", NUMBERS, centre=0.5, noise="laplace", scale=1.0)
    assert_learned(card, "a given centre of the rotation")
    assert release("random-rotation", NUMBERS, noise="laplace", scale=1.0).guarantee["kind"] == LOCAL_DP


TESTED_ABOVE = {
    ("random-rotation", "centre"),
    ("principal-laplace", "basis"),
    ("principal-laplace", "component_bounds"),
    ("guided-projection", "guidance"),
    ("tree-resampling", "plan"),
}


def test_every_parameter_of_every_mechanism_is_classified():
    told = classified()
    known = {(name, parameter) for name, kind in MECHANISMS.items() for parameter in kind._get_param_names()}
    for name, parameter in sorted(known - told.keys()):
        pytest.fail(
            f"The parameter {parameter!r} of {name} is not classified: say in docs/limits.md ('What could be "
            "learned, and what stops it') whether it can hold something learned from people's rows, and what stops it."
        )
    assert not told.keys() - known, "docs/limits.md classifies parameters that do not exist"
    holding = {place for place, words in told.items() if words.startswith("yes") and "claims nothing" not in words}
    assert holding == TESTED_ABOVE, "a parameter that can hold something learned needs a test of what stops it"


def test_what_claims_nothing_never_claims_anything(release):
    silent = {name for (name, _), words in classified().items() if "claims nothing" in words}
    assert silent == {
        "condensation",
        "kernel-resampling",
        "multiplicative-noise",
        "noisy-operator",
        "random-projection",
    }
    positive = Schema((*(Column(f"x{j}", "numeric", low=1, high=2, **PUBLIC) for j in range(5)), LABEL))
    for name in sorted(silent):
        parameters = {"bandwidth": 0.3} if name == "kernel-resampling" else {}
        assert release(name, positive, **parameters).guarantee["kind"] == EMPIRICAL


def test_ranges_of_the_scores_stay_learned(release):
    card = release("principal-laplace", NUMBERS, basis="identity", component_bounds="data")
    assert_learned(card, "ranges of the components")
