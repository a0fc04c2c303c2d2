"""Rows that belong to nobody, from the table to the card: what is claimed, refused, charged and never written."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.core.errors import BudgetError, PrivacyLeakWarning, SchemaError, SfumatoError, UsageError
from sfumato.guarantee import Card, posterior_bound
from sfumato.guarantee.all_releases import hidden_presence
from sfumato.guarantee.card import recomputed, understated
from sfumato.guarantee.cost import Central, epsilon_of, rho_for
from sfumato.guarantee.rounding import rounded_up
from sfumato.guarantee.words import card_in_words
from sfumato.ledger import Ledger
from sfumato.mechanisms import tree_resampling
from sfumato.mechanisms.central.column_codes import replacing_costs
from sfumato.mechanisms.central.drawing import model_from_dict
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Schema

PUBLIC = {"source": "public", "reason": "the form"}
SCHEMA = Schema(
    (
        Column("age", "integer", low=0, high=99, **PUBLIC),
        Column("weight", "numeric", low=0.0, high=200.0, missing=True, **PUBLIC),
        Column("town", "categorical", categories=("a", "b", "c"), **PUBLIC),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
    )
)


def people(n=3_000, seed=0):
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.3
    frame = pd.DataFrame({"age": np.clip(rng.normal(40 + 20 * ill, 10, n), 0, 99).astype(int)})
    frame["weight"] = np.where(rng.random(n) < 0.1, np.nan, np.clip(rng.normal(60 + frame["age"] / 3, 8), 0, 200))
    frame["town"] = rng.choice(list("abc"), n)
    frame["ill"] = np.where(ill, "yes", "no")
    return frame


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger.json"


def options(ledger, **words):
    words = {"mechanism": "tree-resampling", "schema": SCHEMA, "epsilon_presence": 1.0, "delta": 1e-6, **words}
    return Options(ledger=ledger, **words)


def words(ledger, **more):
    return {"schema": SCHEMA, "mechanism": "tree-resampling", "epsilon_presence": 1.0, "ledger": ledger, **more}


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_the_card_claims_what_was_measured_and_no_trace_is_left(tmp_path, ledger, engine):
    done = sanitize(people(), tmp_path / "r", options(ledger, engine=engine))
    shared = {"card.json", "model.json", "release.parquet", "signed.txt", "signed.txt.sig"}
    assert {path.name for path in (tmp_path / "r").iterdir()} == shared
    card = Card.load(tmp_path / "r")
    stated = card.guarantee
    assert (stated["kind"], stated["epsilon_record"], card.label) == ("central-dp", None, "drawn")
    assert stated["central"]["epsilon"] <= 1.0
    assert stated["central"]["epsilon"] > 0.9
    assert "wrong 1 time in 100 is right at most 3 times in 100 (epsilon 1, delta 1e-06)" in stated["words"]
    assert not any("presence" in line for line in card.threat_model["not_protected"])
    assert done.clipped == {}
    assert recomputed(card).central == card.stated_guarantee().central
    table = pq.read_table(tmp_path / "r" / "release.parquet")
    assert table.num_rows == card.rows
    assert [str(field.type) for field in table.schema] == ["int64", "double", "string", "string"]


def test_a_card_that_states_less_than_was_measured_is_caught(tmp_path, ledger):
    sanitize(people(), tmp_path / "r", options(ledger))
    path = tmp_path / "r" / "card.json"
    data = json.loads(path.read_text())
    data["recipe"]["measured"][0]["times"] = 9
    assert "central" in understated(Card.from_dict(data))
    data["recipe"]["measured"] = []
    with pytest.raises(SfumatoError, match="measurements do not fit"):
        Card.from_dict(data)


def test_pure_epsilon_bounds_a_record_twice_over(tmp_path, ledger):
    card = sanitize(people(), tmp_path / "r", options(ledger, delta=0.0)).card
    assert card.guarantee["central"]["delta"] == 0
    assert card.guarantee["epsilon_record"] == pytest.approx(2.0, rel=1e-6)
    assert {entry["way"] for entry in card.recipe["measured"]} <= {"laplace", "choice"}


def test_a_person_with_several_rows_costs_what_rho_says(tmp_path, ledger):
    schema = Schema((Column("who", "categorical", role="person"), *SCHEMA.columns))
    frame = people().assign(who=[f"P{i // 3}" for i in range(3_000)])
    with pytest.raises(UsageError, match="--max-rows-per-person"):
        sanitize(frame, tmp_path / "r", options(ledger, schema=schema))
    card = sanitize(frame, tmp_path / "r", options(ledger, schema=schema, max_rows_per_person=2)).card
    assert card.guarantee["kind"] == "central-dp"
    assert "2.12 for presence, up to 2 rows each" in card.guarantee["words"]


def test_learned_domains_are_refused_before_a_row_is_released(tmp_path, ledger):
    with pytest.warns(PrivacyLeakWarning), pytest.raises(SchemaError, match="public bounds, categories and classes"):
        sanitize(people(), tmp_path / "r", options(ledger, schema=None, label="ill"))
    label = Schema((*SCHEMA.columns[:-1], Column("ill", "categorical", role="label", categories=("no", "yes"))))
    with pytest.raises(SchemaError, match="'ill'"):
        sanitize(people(), tmp_path / "r", options(ledger, schema=label))
    assert not (tmp_path / "r").exists()
    assert Ledger(ledger).releases == 0


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"epsilon_presence": 0.0}, "positive"),
        ({"epsilon_presence": math.inf}, "positive"),
        ({"epsilon_presence": 1000.0}, "protects no one"),
        ({"delta": 1.0}, "'delta'"),
        ({"delta": -1e-9}, "'delta'"),
        ({"private_label": True}, "--private-label"),
        ({"like_original": True}, "--like-original"),
        ({"out_of_bounds": "refuse"}, "--out-of-bounds"),
        ({"parameters": {"rows": 0}}, "'rows'"),
        ({"delta": 0.01}, "one record in 100 is released as it is"),
        ({"parameters": {"epsilon": 2.0}}, "given twice"),
    ],
    ids=str,
)
def test_wrong_wishes(tmp_path, ledger, words, match):
    with pytest.raises(UsageError, match=match):
        sanitize(people(50), tmp_path / "r", options(ledger, **words))
    assert Ledger(ledger).releases == 0


def test_a_delta_above_one_over_the_rows_is_refused_and_paid_for(tmp_path, ledger):
    """The number of rows is known with noise only, and that noise was drawn."""
    with pytest.raises(UsageError, match="well below one over the number of rows"):
        sanitize(people(), tmp_path / "r", options(ledger, delta=0.009))
    assert Ledger(ledger).releases == 1


def test_the_usual_delta_holds_for_tables_of_any_size(tmp_path, ledger, monkeypatch):
    """Gaussian noise never releases a record as it is; a delta that the owner chose is held against the rows."""
    monkeypatch.setattr(tree_resampling, "USUAL_DELTA", 0.009)
    sanitize(people(), tmp_path / "r", options(ledger, delta=0.009))
    assert Ledger(ledger).releases == 1


def test_the_ledger_keeps_kinds_apart_and_adds_up_rho(tmp_path, ledger):
    frame = people()
    first = sanitize(frame, tmp_path / "1", options(ledger)).card
    second = sanitize(frame, tmp_path / "2", options(ledger)).card
    assert first.earlier_releases["count"] == 0
    assert second.earlier_releases["count"] == 1
    assert second.all_releases().central.rho == pytest.approx(2 * first.all_releases().central.rho, rel=1e-6)
    assert "epsilon 1.46, delta 1e-06" in second.guarantee["words"]
    local = Options(mechanism="additive-noise", schema=SCHEMA, epsilon_record=2.0, ledger=ledger)
    third = sanitize(frame, tmp_path / "3", local).card
    assert third.earlier_releases["total_epsilon_record"] == pytest.approx(2.0)
    assert "Some blur real rows (epsilon 2 in all) and show who is there" in third.guarantee["words"]
    assert "tests for a person" not in third.guarantee["words"]


def test_nothing_depends_on_how_many_rows_there_are(ledger):
    """No rows, one row, one class: the same words as ever, and a table like any other."""
    for frame in (people(1)[:0], people(1), people(30).assign(ill="no")):
        release = sf.sanitize(frame, schema=SCHEMA, mechanism="tree-resampling", epsilon_presence=0.5, ledger=ledger)
        assert release.card.guarantee["kind"] == "central-dp"
        assert len(release.table) == release.card.rows >= 1


def test_what_was_measured_is_not_made_public(ledger):
    frame = people(400)
    release = sf.sanitize(frame, schema=SCHEMA, mechanism="tree-resampling", epsilon_presence=1.0, ledger=ledger)
    with pytest.raises(UsageError, match="void its guarantee"):
        sf.audit(release, original=frame, public=True, with_audit=True)
    assert sf.audit(release, original=frame, public=True).data["attacks"] == []
    told = sf.audit(release, original=frame, holdout=people(400, 1), repeats=0)
    scored = {entry["name"] for entry in told.data["attacks"] if entry.get("score") is not None}
    assert scored == {"membership", "attribute-inference", "singling-out", "singling-out-one-column"}


def test_a_redraw_is_free_and_a_refit_is_not(tmp_path, ledger):
    release = sf.sanitize(people(), out=tmp_path / "r", **words(ledger))
    model = release.card.recipe["model"]
    more = sf.redraw(tmp_path / "r", rows=7_000, out=tmp_path / "more", ledger=ledger)
    assert len(more.table) == more.card.rows == 7_000
    assert {path.name for path in (tmp_path / "more").iterdir()} == {"card.json", "release.parquet", "model.json"}
    again = sf.open_release(tmp_path / "more")
    assert again.card.guarantee["central"] == release.card.guarantee["central"]
    assert again.card.earlier_releases == {**release.card.earlier_releases, "redrawn": True}
    assert again.card.recipe["model"] == model
    assert (Ledger(ledger).releases, json.loads(ledger.read_text())["models"]) == (1, {model: 1})
    refit = sf.sanitize(people(), **words(ledger))
    assert (Ledger(ledger).releases, refit.card.earlier_releases["count"]) == (2, 1)
    assert refit.card.recipe["model"] != model
    kept = [len(sf.redraw(refit, seed=seed).table) for seed in (1, 1)]
    assert kept[0] == kept[1] == refit.card.rows
    assert sf.redraw(refit, seed=1).table.equals(sf.redraw(refit, seed=1).table)


def test_drawn_again_is_the_same_law(tmp_path, ledger):
    release = sf.sanitize(people(), parameters={"rows": 40_000}, **words(ledger))
    other = sf.redraw(release.save(tmp_path / "r"), rows=40_000, ledger=ledger).table
    for column in ("town", "ill"):
        found, given = (t[column].value_counts(normalize=True).sort_index() for t in (other, release.table))
        np.testing.assert_allclose(found, given, atol=0.015)
    assert other["age"].mean() == pytest.approx(release.table["age"].mean(), abs=0.5)
    assert other["weight"].isna().mean() == pytest.approx(release.table["weight"].isna().mean(), abs=0.01)


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m["classes"].append(1.0),
        lambda m: m["columns"][0]["shares"][0].__setitem__(0, -1.0),
        lambda m: m["columns"][0]["bins"].__setitem__(0, 10**6),
        lambda m: m["order"].reverse() or m["order"].append([9, []]),
        lambda m: m.update(rows=-5),
        lambda m: m.pop("tables"),
        lambda m: m["columns"][1].update(name="other"),
    ],
)
def test_a_model_from_outside_is_checked_in_every_part(tmp_path, ledger, edit):
    release = sf.sanitize(people(), out=tmp_path / "r", **words(ledger, epsilon_presence=8.0))
    found = json.loads((tmp_path / "r" / "model.json").read_text())
    assert found["tables"]
    edit(found)
    (tmp_path / "r" / "model.json").write_text(json.dumps(found))
    with pytest.raises(SfumatoError, match="not the one that its release"):
        sf.redraw(tmp_path / "r", ledger=ledger)
    with pytest.raises(SfumatoError, match="edited or is damaged"):
        model_from_dict(found, release.card.source_encoding())


def test_only_rows_that_belong_to_nobody_can_be_drawn_again(tmp_path, ledger):
    local = sf.sanitize(people(), schema=SCHEMA, mechanism="additive-noise", ledger=ledger)
    with pytest.raises(UsageError, match="tree-resampling"):
        sf.redraw(local)
    drawn = sf.sanitize(people(), out=tmp_path / "r", **words(ledger))
    with pytest.raises(UsageError, match="'rows'"):
        sf.redraw(drawn, rows=0)
    (tmp_path / "r" / "model.json").unlink()
    with pytest.raises(SfumatoError, match=r"no model\.json"):
        sf.redraw(tmp_path / "r")


def test_no_cell_and_no_number_of_rows_is_refused_or_told(tmp_path, ledger):
    """One record decides none of this: words in a number, infinity, a class or a category that nobody listed."""
    frame = people(500).astype(object)
    frame.loc[0, "age"], frame.loc[1, "age"] = "forty", None
    frame.loc[2, "town"], frame.loc[3, "town"] = "elsewhere", None
    frame.loc[4, "ill"], frame.loc[5, "ill"] = "perhaps", None
    frame.loc[6, "weight"] = np.inf
    frame.to_csv(tmp_path / "t.csv", index=False)
    told = sf.sanitize(tmp_path / "t.csv", **words(ledger)).told
    clean = sf.sanitize(people(500), **words(ledger)).told
    assert told.clipped == clean.clipped == {}
    assert told.notes.keys() == clean.notes.keys()


def test_the_card_does_not_tell_that_these_very_rows_were_released_before(ledger):
    """Whoever sees both cards would know that nobody left or came."""
    frame = people()
    sf.sanitize(frame, **words(ledger))
    same, one_less = (sf.sanitize(rows, dry_run=True, **words(ledger)).card for rows in (frame, frame[1:]))
    told, other = dict(same.earlier_releases), dict(one_less.earlier_releases)
    # Which tables a fit measures follows from its own noise, and the last digit of their sum with it.
    assert told.pop("central") == pytest.approx(other.pop("central"), rel=1e-12)
    assert told == other
    assert told["count"] == 1
    assert not ledger.with_name(ledger.name + ".people").exists()
    narrower = Schema((*SCHEMA.columns[1:],))
    assert sf.sanitize(frame, **words(ledger, schema=narrower)).card.earlier_releases["count"] == 1


RENAMED = Schema(tuple(replace(column, name=column.name + "_2") for column in SCHEMA.columns))


def renamed(frame):
    return frame.rename(columns={name: name + "_2" for name in SCHEMA.names})


def test_made_up_rows_add_up_with_the_whole_ledger_however_columns_are_called(ledger):
    """Names can be changed, and rows must not be compared: only the owner can say that these are other people."""
    frame, known = renamed(people()), {"schema": RENAMED}
    sf.sanitize(people(), **words(ledger, delta=0.0))
    sf.ledger_budget(3.9, ledger=ledger)
    with pytest.raises(BudgetError, match=r"would bring a person to epsilon 4, .*--cohort NAME with both"):
        sf.sanitize(frame, **words(ledger, **known, delta=0.0))
    local = {
        **known,
        "mechanism": "additive-noise",
        "epsilon_presence": None,
        "epsilon_record": 2.0,
        "private_label": True,
    }
    with pytest.raises(BudgetError, match="would bring a person to epsilon 4,"):
        sf.sanitize(frame, **words(ledger, **local))
    sf.ledger_budget(None, ledger=ledger)
    assert sf.sanitize(frame, **words(ledger, **known)).card.earlier_releases["count"] == 1
    sf.sanitize(frame, **words(ledger, **local))
    assert sf.sanitize(people(), **words(ledger)).card.earlier_releases["count"] == 3, "a perturbed table counts too"


def test_cohorts_are_kept_apart_by_the_owners_word_and_the_card_says_so(ledger):
    first = sf.sanitize(people(), **words(ledger, cohort="North")).card
    other = sf.sanitize(people(), **words(ledger, cohort="south")).card
    assert first.earlier_releases["count"] == other.earlier_releases["count"] == 0
    assert other.earlier_releases["set_apart"] == 1
    assert "By the owner's word 1 other release of this ledger had nobody of these people." in other.guarantee["words"]
    assert Card.from_dict(other.to_dict()).guarantee["words"] == other.guarantee["words"]
    assert sf.sanitize(people(), **words(ledger, cohort=" NORTH")).card.earlier_releases["count"] == 1
    assert sf.sanitize(people(), **words(ledger)).card.earlier_releases["count"] == 3, "who names none may be anybody"
    local = {"mechanism": "additive-noise", "epsilon_presence": None, "epsilon_record": 2.0}
    south = sf.sanitize(people(), **words(ledger, cohort="south", **local)).card.earlier_releases
    assert (south["count"], south["set_apart"]) == (2, 2)
    again = sf.sanitize(people(), **words(ledger, cohort="north", **local)).card.earlier_releases
    assert again["total_epsilon_record"] == pytest.approx(4.0), "rows that come again count, whatever they are called"
    for wrong in ("", "   ", "x" * 101, "a\nb"):
        with pytest.raises(UsageError, match="--cohort"):
            sf.sanitize(people(), **words(ledger, cohort=wrong))


def shown(card):
    """The largest epsilon in words, the figures below, and whether the delta stands beside the chance."""
    lines = card_in_words(card).splitlines()
    told = [float(found) for line in lines for found in re.findall(r"epsilon ([\d.]+\d)", line)]
    totals = [line for line in lines if line.startswith("Epsilon of all")]
    figures = [float(found) for line in totals for found in re.findall(r"(?:record|person) ([\d.]+)", line)]
    return max(told), figures, ", except with probability 1e-06" in lines[0].partition("1 chance in 10")[2]


def test_one_figure_for_values_in_words_figures_and_beliefs(ledger):
    """Rho of both fits for one record that goes and another that comes, plus the epsilon of the perturbed record."""
    sf.sanitize(people(), **words(ledger, epsilon_presence=4.0))
    drawn = sf.sanitize(people(), **words(ledger, epsilon_presence=4.0)).card
    replaced = Central.from_dict(drawn.earlier_releases["central"]).rho_replaced
    assert 2 * 2.0 * rho_for(4.0, 1e-6) < replaced <= 2 * replacing_costs(2) * rho_for(4.0, 1e-6) * (1 + 1e-9)
    both = epsilon_of(replaced, 1e-6)
    assert drawn.all_releases().record == pytest.approx(both, rel=1e-6)
    told = float(rounded_up(both))
    assert shown(drawn) == (told, [told] * 2, True)
    local = {"mechanism": "additive-noise", "epsilon_presence": None, "epsilon_record": 2.0}
    perturbed = sf.sanitize(people(), **words(ledger, **local)).card
    told = float(rounded_up(both + 2))
    assert shown(perturbed) == (told, [told] * 2, True)
    assert perturbed.guarantee["words"].startswith("Practically unprotected")


def test_pure_totals_lead_to_beliefs(ledger):
    sf.sanitize(people(), **words(ledger, epsilon_presence=0.5, delta=0.0))
    card = sf.sanitize(people(), **words(ledger, epsilon_presence=0.25, delta=0.0)).card
    assert card.all_releases().record == pytest.approx(1.5, rel=1e-9)
    assert card.all_releases().beliefs()[0][:2] == (0.1, pytest.approx(posterior_bound(0.1, 1.5)))


def test_made_up_rows_with_a_seed_prove_nothing_for_those_that_follow(ledger):
    seeded = sf.sanitize(people(), **words(ledger, seed=1)).card
    assert not seeded.all_releases().bounded
    after = sf.sanitize(people(), **words(ledger)).card
    assert (after.guarantee["kind"], after.all_releases().bounded) == ("central-dp", False)
    assert "Nothing is proved of both releases together: an earlier one" in after.guarantee["words"]
    assert after.all_releases().beliefs() == []
    assert hidden_presence(after.to_dict()) is None
    assert sf.show_ledger(ledger).releases[0].kind == "empirical-only"
    sf.ledger_budget(100, ledger=ledger)
    with pytest.raises(BudgetError, match="earlier one without a proved bound"):
        sf.sanitize(people(), **words(ledger))
    with pytest.raises(BudgetError, match="no bound that is proved"):
        sf.sanitize(people(), **words(ledger, seed=1, cohort="elsewhere"))


def test_the_budget_counts_values_from_the_first_release_on(ledger):
    """Presence at 1.9 costs 3.1 for values at most, and stays there when a perturbed record of 0.1 comes."""
    sf.ledger_budget(2.9, ledger=ledger)
    values = epsilon_of(replacing_costs(2) * rho_for(1.9, 1e-6), 1e-6)
    with pytest.raises(BudgetError, match=f"to epsilon {rounded_up(values)}, .*one record goes, another comes"):
        sf.sanitize(people(), **words(ledger, epsilon_presence=1.9))
    sf.ledger_budget(values + 0.1, ledger=ledger)
    sf.sanitize(people(), **words(ledger, epsilon_presence=1.9))
    local = {"mechanism": "additive-noise", "epsilon_presence": None, "private_label": True, "label_epsilon": 0.01}
    sf.sanitize(people(), **words(ledger, **local, epsilon_record=0.099))
    with pytest.raises(BudgetError):
        sf.sanitize(people(), **words(ledger, **local, epsilon_record=0.02))


def test_rows_of_people_who_were_named_once_count_where_nobody_is_named(ledger):
    """Three rows a person at epsilon 0.5, then the same rows without names: 3 x 0.5 twice, of which values cost two."""
    frame = people().assign(who=[f"P{i // 3}" for i in range(3_000)])
    named = {"person": "who", "max_rows_per_person": 3}
    pure = {"epsilon_presence": 0.5, "delta": 0.0}
    sf.sanitize(frame, **words(ledger, **pure, **named))
    sf.ledger_budget(5.9, ledger=ledger)
    with pytest.raises(BudgetError, match="would bring a person to epsilon 6,"):
        sf.sanitize(people(), **words(ledger, **pure))
    sf.ledger_budget(6.0, ledger=ledger)
    card = sf.sanitize(people(), **words(ledger, **pure)).card
    assert card.earlier_releases["total_epsilon_person"] == pytest.approx(6.0)
    assert (card.all_releases().record, card.all_releases().person.epsilon) == (pytest.approx(2.0), pytest.approx(6.0))
    assert "a person's 3 rows together can lift" in card.guarantee["words"]
    assert "both together come to epsilon 6. One row alone: epsilon 2." in card.guarantee["words"]
    assert [round(one.values.epsilon, 9) for one in sf.show_ledger(ledger).releases] == [6.0, 6.0]
    once = {**named, "max_rows_per_person": 1}  # of one row of each person that row is all
    sf.ledger_budget(7.0, ledger=ledger)
    sf.sanitize(frame, **words(ledger, **pure, **once))
    with pytest.raises(BudgetError):
        sf.sanitize(frame, **words(ledger, **pure, **once))
