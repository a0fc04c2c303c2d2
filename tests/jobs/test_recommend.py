"""Which mechanism, how strong: the search finds what is there, and a formal claim survives only a blind choice."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
import sfumato.advising.trial as ground
from sfumato.advising.advice import Known, advise
from sfumato.advising.recommendation import Recommendation, _strongest, refuted
from sfumato.advising.trial import (
    Ground,
    Outcome,
    Setting,
    Trial,
    averaged,
    keeps,
    proves,
    search,
    split,
    trial,
    trial_schema,
)
from sfumato.advising.wish import USUAL_RISK, Candidate, Wish, candidates
from sfumato.auditing.extra import Points
from sfumato.core.errors import PrivacyLeakWarning, TableError, UnmetWishError, UsageError
from sfumato.guarantee.cost import Central, Values
from sfumato.guarantee.rounding import rounded_up
from sfumato.mechanisms import MECHANISMS, make_mechanism
from sfumato.mechanisms.parameters import RECORD, Knob
from sfumato.release.strength import Config

KNOWN = {"source": "public", "reason": "the form"}
SCHEMA = sf.Schema(
    (
        sf.Column("age", "integer", low=0, high=100, **KNOWN),
        sf.Column("dose", "numeric", low=-1.0, high=3.0, missing=True, **KNOWN),
        sf.Column("ward", "categorical", categories=("a", "b", "c"), **KNOWN),
        sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN),
    )
)


def people(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.5
    return pa.table(
        {
            "age": np.clip(np.rint(40 + 30 * ill + rng.normal(0, 8, rows)), 0, 100).astype(int),
            "dose": rng.uniform(-1, 3, rows),
            "ward": rng.choice(["a", "b", "c"], rows),
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture(autouse=True)
def _ceiling_of_one_learner(monkeypatch):
    """No test asks how good plain rows are: one quick learner tells, not forests and networks."""
    reached = ground._reached
    monkeypatch.setattr(ground, "_reached", lambda *given: reached(*given[:4], ("naive-bayes",)))


def outcome(risk: float, accuracy: float) -> Outcome:
    """Measured on so many rows that no interval is wide."""
    return Outcome({"somebody": points(100 * risk)}, {"linear": accuracy}, 10**9, 0.9, 0.5, "local-dp", 1.0)


def points(extra, low=None, high=None):
    return Points(extra, 0.0, extra if low is None else low, extra if high is None else high)


def measured(values):
    """A mechanism whose adversaries gain eps / 100 and whose loss is 0.4 / eps."""
    return outcome(values["epsilon_record"] / 100.0, 0.9 - 0.4 / values["epsilon_record"])


@pytest.mark.parametrize(
    ("wish", "right"),
    [
        (Wish(max_risk=0.2), 20.0),  # the most open one within the risk
        (Wish(max_loss=0.1), 4.0),  # the least open one within the loss
        # both: 0.2 - eps / 100 = 0.1 - 0.4 / eps at eps = 5 + sqrt(25 + 40)
        (Wish(max_risk=0.2, max_loss=0.1), 5.0 + math.sqrt(65.0)),
    ],
)
def test_the_search_finds_where_a_limit_lies_between_any_two_rungs(wish, right):
    found = search(Candidate("additive-noise", RECORD, {}), wish, measured, steps=9)
    assert keeps(found[0].outcome, wish)
    assert 0.9 * right < found[0].parameters["epsilon_record"] < 1.1 * right


@pytest.mark.parametrize("wish", [Wish(max_risk=0.2), Wish(max_loss=0.1), Wish(max_risk=0.2, max_loss=0.2)])
def test_a_strength_that_is_refused_is_too_open(wish):
    def refusing(values):
        if values["epsilon_record"] > 10.0:
            raise UsageError("more protects nobody")
        return measured(values)

    found = search(Candidate("additive-noise", RECORD, {}), wish, refusing, steps=8)
    assert keeps(found[0].outcome, wish)

    def always(values):  # noqa: ARG001
        raise UsageError("categories only")

    with pytest.raises(UsageError, match="categories only"):
        search(Candidate("additive-noise", RECORD, {}), wish, always)


def test_where_nothing_keeps_the_wish_the_nearest_comes_first():
    wish = Wish(max_risk=0.01, max_loss=0.01)
    found = search(Candidate("additive-noise", RECORD, {}), wish, measured)
    assert not keeps(found[0].outcome, wish)
    rooms = [wish.room(one.outcome.risk, one.outcome.loss) for one in found]
    assert max(rooms) - rooms[0] < 0.05


def test_a_knob_goes_from_most_protected_to_most_open():
    for knob in (RECORD, Knob("k", 2, 300, protects=True, whole=True)):
        values = [knob.at(u) for u in (0.0, 0.3, 0.7, 1.0)]
        assert values == sorted(values, reverse=knob.protects)
        assert {values[0], values[-1]} == {knob.low, knob.high}
        assert knob.openness(knob.at(0.7)) == pytest.approx(0.7, abs=0.05)
    assert RECORD.up_to(4.0).at(1.0) == 4.0
    assert RECORD.up_to(0.01).at(1.0) == 0.01


def test_every_mechanism_is_a_candidate_or_says_why_not():
    for trust in ("owner", "nobody", "key-holders"):
        found, left_out = candidates(Wish(trust=trust), public=True)
        assert {one.mechanism for one in found} | left_out.keys() == set(MECHANISMS)
        assert ("random-rotation" in left_out) == (trust != "key-holders")
    formal, _ = candidates(Wish(epsilon=2.0), public=True)
    assert "condensation" not in {one.mechanism for one in formal}
    assert all(one.knob.at(1.0) == 2.0 for one in formal if one.mechanism != "tree-resampling")
    made_up = next(one for one in formal if one.mechanism == "tree-resampling").parameters(1.0)
    assert 1.9 < make_mechanism("tree-resampling", made_up).planned.value.epsilon <= 2.0, "it bounds values as well"


def test_a_wish_that_cannot_be_meant_is_refused():
    assert Wish().in_trials().max_risk == USUAL_RISK
    for wrong in (Wish(max_risk=1.5), Wish(max_loss=-0.1), Wish(epsilon=0.0), Wish(trust="the state"), Wish(prior=0.2)):
        with pytest.raises(UsageError):
            wrong.check()


def test_rows_of_a_person_stay_on_one_side():
    whose = [f"p{number // 4}" for number in range(80)]
    first, second = split(whose, 80, (0.5, 0.5), np.random.default_rng(0))
    assert len(first) + len(second) == 80
    assert not {whose[i] for i in first} & {whose[i] for i in second}


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    monkeypatch.setenv("SFUMATO_LEDGER", str(path))
    return path


def test_the_answer_does_not_depend_on_the_rows_and_keeps_its_proof(ledger, tmp_path):
    """The same method, strength and config for other rows and another number of them."""
    found = [
        sf.recommend(people(rows, seed=rows), schema=SCHEMA, epsilon=3.0, trust="nobody", out=tmp_path / f"{rows}.yaml")
        for rows in (90, 300)
    ]
    assert [one.mechanism for one in found] == ["piecewise-noise"] * 2
    assert found[0].parameters == found[1].parameters
    assert (tmp_path / "90.yaml").read_text() == (tmp_path / "300.yaml").read_text()
    assert not ledger.exists()
    card = sf.sanitize(people(), schema=SCHEMA, config=tmp_path / "90.yaml").card
    assert (card.guarantee["kind"], card.earlier_releases["count"]) == ("local-dp", 0)
    assert card.guarantee["epsilon_record"] <= 3.0
    assert "by rule" in card.chosen_by


@pytest.mark.parametrize("trust", ["owner", "nobody"])
def test_one_strength_in_three_ways(trust):
    """Each is shown as all three, and each leads back to the same epsilon."""
    made = sf.recommend(people(), schema=SCHEMA, max_risk=0.2, trust=trust)
    told = made.bound.to_dict()
    assert told["max_risk"] == pytest.approx(0.2)
    again = sf.recommend(people(), schema=SCHEMA, max_posterior=told["max_posterior"]["to"], trust=trust)
    assert again.bound.epsilon == pytest.approx(made.bound.epsilon)
    third = sf.recommend(people(), schema=SCHEMA, epsilon=made.bound.epsilon, trust=trust)
    assert third.bound.loss == pytest.approx(made.bound.loss, rel=1e-6)
    if trust == "nobody":
        assert made.bound.epsilon == pytest.approx(4 * math.atanh(0.2))
    else:
        assert made.bound.epsilon < 4 * math.atanh(0.2)  # beliefs need more than epsilon at the same delta
    assert "--epsilon" in made.command("t.csv", schema="s.yaml")
    typed = float(made.command("t.csv", schema="s.yaml").split("--epsilon ")[1].split()[0])
    assert 0.99 * made.bound.epsilon < typed <= made.bound.epsilon


def test_what_teaches_nothing_is_not_recommended(tmp_path):
    out = tmp_path / "config.yaml"
    found = sf.recommend(people(), schema=SCHEMA, epsilon=0.01, trust="nobody", out=out)
    assert not found.met
    assert not out.exists()
    assert found.paragraph().startswith("At this epsilon tables of any size that was tried teach nothing. From epsilon")
    few = sf.recommend(people(), schema=SCHEMA, epsilon=0.25, trust="nobody", rows=60)
    assert not few.met
    assert "tables of 60 rows teach nothing. From epsilon" in few.paragraph()
    larger = sf.recommend(people(), schema=SCHEMA, epsilon=0.25, trust="nobody")
    assert larger.met, "larger tables learn, and the config knows nothing of how many rows there are"
    sentence = r"At this epsilon tables of 60 rows teach nothing\. From epsilon [\d.]+, or with [\d,]+ rows, they do\. "
    assert re.match(
        sentence + r"\d+ of \d+ public tables of this size learned nothing\. The rule's choice", larger.paragraph()
    )
    some = sf.recommend(people(), schema=SCHEMA, epsilon=1.0, rows=250).paragraph()
    assert re.match(r"\d of 14 public tables of this size learned nothing\. Recommended", some), "fewer are said first"
    tiny = sf.recommend(people(3), schema=SCHEMA, epsilon=8.0)
    assert "None of them is as small as one of 3 rows: expect less." in tiny.paragraph()


def test_the_least_epsilon_whose_experience_keeps_a_loss():
    with pytest.raises(UsageError, match="give --rows"):
        sf.recommend(people(), schema=SCHEMA, max_loss=0.1)
    small, large = (sf.recommend(people(), schema=SCHEMA, max_loss=0.1, rows=rows) for rows in (500, 6_000))
    assert small.met
    assert small.forecast.originals - small.forecast.accuracy <= 0.1
    assert large.bound.epsilon < small.bound.epsilon
    assert not sf.recommend(people(), schema=SCHEMA, max_loss=0.001, rows=60).met


def test_without_a_column_to_predict_shares_are_forecast():
    schema = sf.Schema(tuple(column for column in SCHEMA.columns if column.role != "label"))
    for trust in ("owner", "nobody"):
        found = sf.recommend(people().select(schema.names), schema=schema, epsilon=2.0, trust=trust, rows=1_000)
        off = r"off by \d+ points \(\d+ to \d+\), of two columns by \d+ points \(\d+ to \d+\)"
        words = rf"On \d+ public tables of \d+ to [\d,]+ rows: shares of one column were {off}"
        assert re.search(words, found.paragraph())
        told = found.to_dict()["forecast"]
        assert 0 < told["one_column"] < told["two_columns"] < 1
        for figure in ("one_column", "two_columns"):
            low, high = told[f"{figure}_interval"]
            assert 0 <= low < told[figure] < high <= 1


def test_ranges_that_were_read_off_and_no_column_to_predict_follow_the_rule_and_prove_nothing_yet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sf.recommend(people().drop(["ill"]), epsilon=1.0, rows=1_000)
    assert found.mechanism == "tree-resampling"
    assert found.paragraph().startswith(
        "Nothing is proved yet, because the ranges of 3 columns were read off your table: age, dose, ward. No wish "
        "about risk or epsilon is kept until you declare them"
    )
    assert "shares of one column were off by" in found.paragraph()
    assert found.to_dict()["read_off"] == ["age", "dose", "ward"]
    lines = [line.split()[1:3] for line in found.command("t.csv").splitlines()]
    assert lines[1] == ["schema", "declare"], "made-up rows are refused until ranges are declared"
    assert "--schema schema.yaml" in found.command("t.csv")


def test_printed_commands_are_quoted_for_a_shell():
    assert_quoted(sf.recommend(people(), schema=SCHEMA, epsilon=1.0, rows=1_000))


def assert_quoted(found):
    given = ["my 'best' table.csv", "a schema.yaml", "a config.yaml"]
    for config in (None, given[2]):
        typed = shlex.split(found.command(given[0], schema=given[1], config=config))
        assert typed[:2] == ["sfumato", "sanitize"]
        assert set(given[:2] if config is None else given) < set(typed)


def test_columns_with_spaces_are_quoted_where_they_are_to_be_declared():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sf.recommend(
            people().drop(["ill"]).rename_columns(["age in years", "dose", "ward"]), epsilon=1.0, rows=1_000
        )
    declare = shlex.split(found.command("t.csv").splitlines()[1])
    assert "age in years" in declare


def test_wishes_that_say_the_same_twice_are_refused():
    for wrong in (
        {"epsilon": 1.0, "max_risk": 0.2},
        {"epsilon": 1.0, "trust": "key-holders"},
        {"epsilon": 1.0, "prior": 0.2},
        {"rows": 0},
        {"max_risk": 0.0},
    ):
        with pytest.raises(UsageError):
            sf.recommend(people(), schema=SCHEMA, **wrong)


def test_a_choice_on_private_rows_voids_the_proof(ledger, tmp_path):
    config = tmp_path / "config.yaml"
    found = sf.recommend(people(), schema=SCHEMA, max_risk=0.9, use_table=True, tries=1, out=config)
    assert found.met
    assert_quoted(found)
    assert found.forecast.kind == "empirical-only"
    assert not ledger.exists()
    release = sf.sanitize(people(), schema=SCHEMA, config=config)
    assert release.card.guarantee["kind"] == "empirical-only"
    assert any("chosen by looking" in reason for reason in release.card.guarantee["in_the_way"])
    assert release.card.guarantee["conditional_epsilon"] is not None


def test_rows_that_were_released_and_belong_to_nobody_can_be_searched(ledger, tmp_path):
    """Part of the budget buys rows of nobody, the choice is made on these, and the second release's proof stays."""
    schema = sf.Schema(tuple(column for column in SCHEMA.columns if column.name != "dose"))
    first = sf.sanitize(
        people(300).select(schema.names), schema=schema, mechanism="tree-resampling", epsilon_presence=3.0
    )
    first.save(tmp_path / "first")
    before = ledger.read_text()
    config = tmp_path / "config.yaml"
    with pytest.raises(UsageError, match="leave out"):
        sf.recommend(str(tmp_path / "first"), label="sex", tries=1)
    found = sf.recommend(str(tmp_path / "first"), epsilon=4.0, trust="nobody", tries=1, out=config)
    assert found.looked_at == "released"
    alone = first.card.all_releases().values.epsilon
    assert found.together.epsilon == pytest.approx(alone + 4.0, rel=1e-6)
    assert f"together come to epsilon {rounded_up(alone + 4.0)} at delta 1e-06" in found.paragraph()
    assert found.command(str(tmp_path)).startswith("sfumato sanitize TABLE --schema SCHEMA ")
    assert "made-up rows that were released before" in found.paragraph()
    assert ledger.read_text() == before
    second = sf.sanitize(people(300).select(schema.names), schema=schema, config=config)
    assert second.card.guarantee["kind"] == "local-dp"
    assert "released before" in second.card.chosen_by
    assert second.card.all_releases().values.epsilon <= found.together.epsilon * (1 + 1e-9)
    assert second.card.earlier_releases["count"] == 1, "both cost something, and the ledger adds them up"
    with pytest.raises(UsageError, match="people's rows with noise"):
        sf.recommend(second)


@pytest.mark.system
def test_a_choice_on_a_release_proves_nothing_where_the_ledger_did_not_charge_it(ledger, tmp_path):
    """Made with a seed, or charged elsewhere: the next card must not claim a proof with nothing earlier."""
    schema = sf.Schema(tuple(column for column in SCHEMA.columns if column.name != "dose"))
    rows, wish = people(300).select(schema.names), {"trust": "nobody", "max_risk": 1.0, "tries": 1}
    words = {"schema": schema, "mechanism": "tree-resampling", "epsilon_presence": 3.0}
    for name, other in (("seeded", {"seed": 1}), ("elsewhere", {"ledger": tmp_path / "other.json"})):
        sf.sanitize(rows, **words, **other, out=tmp_path / name)
        found = sf.recommend(tmp_path / name, **wish)
        assert found.forecast.kind == "empirical-only"
        assert "did not charge that release" in found.paragraph()
        assert found.together is None
        with pytest.raises(UnmetWishError, match="this ledger did not charge that release"):
            sf.recommend(tmp_path / name, trust="nobody", epsilon=4.0, tries=1)
        found.config.save(tmp_path / "config.yaml")
        card = sf.sanitize(rows, schema=schema, config=tmp_path / "config.yaml", dry_run=True).card
        assert card.guarantee["kind"] == "empirical-only"
        assert any("did not charge" in reason for reason in card.guarantee["in_the_way"])
    config = tmp_path / "known.yaml"
    model = sf.open_release(tmp_path / "elsewhere").card.recipe["model"]
    found = sf.recommend(tmp_path / "elsewhere", **wish, ledger=tmp_path / "other.json", out=config)
    assert (found.forecast.kind, found.config.model) == (
        "local-dp",
        model,
    )
    given = {"schema": schema, "config": config, "dry_run": True}
    kinds = [sf.sanitize(rows, **given, ledger=one).card.guarantee["kind"] for one in (tmp_path / "other.json", ledger)]
    assert kinds == ["local-dp", "empirical-only"]


@pytest.mark.system
def test_what_cannot_be_kept_is_said_and_no_config_is_written(ledger, tmp_path):  # noqa: ARG001
    out = tmp_path / "config.yaml"
    found = sf.recommend(people(), schema=SCHEMA, max_loss=0.0, max_risk=0.0, use_table=True, tries=1, out=out)
    assert not found.met
    assert not out.exists()
    assert "Nothing keeps it" in found.paragraph()
    assert found.to_dict()["nearest"][0]["keeps"] is False


def test_a_wish_for_a_proof_is_not_kept_by_trials_on_private_rows():
    """An epsilon of them would be conditional, so a setting must not be marked as keeping it."""
    said = pytest.warns(PrivacyLeakWarning, match="nothing can be proved of what is chosen by them")
    with said, pytest.raises(UnmetWishError, match="--epsilon asks for a proof"):
        sf.recommend(people(), schema=SCHEMA, epsilon=4.0, use_table=True)
    with pytest.raises(UsageError, match="--max-posterior is kept by a proof"):
        sf.recommend(people(), schema=SCHEMA, max_posterior=0.3, use_table=True)


def test_without_a_schema_no_trial_is_run_unless_it_is_asked_for(monkeypatch):
    monkeypatch.setattr("sfumato.advising.recommendation.choose_on", lambda *_: pytest.fail("rows were looked at"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sf.recommend(people(), label="ill", max_risk=0.2)
    assert found.known.read_off == ("age", "dose", "ward", "ill")
    assert found.command("my table.csv").splitlines()[0] == (
        "sfumato schema 'my table.csv' --label ill --out schema.yaml"
    )
    for words in ({"tries": 3}, {"workers": 2}):
        with pytest.raises(UsageError, match="add --use-table"):
            sf.recommend(people(), schema=SCHEMA, **words)


def test_a_persons_rows_need_a_column_and_a_cap():
    visits = people().append_column("who", pa.array([f"p{i // 3}" for i in range(60)]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(UsageError, match="--max-rows-per-person"):
            sf.recommend(visits, label="ill", person="who")
        found = sf.recommend(visits, label="ill", person="who", max_rows_per_person=3)
    assert "who" not in found.known.read_off
    assert found.command("t.csv").endswith("--person who --max-rows-per-person 3 --out release")
    unnamed = sf.recommend(people(), schema=SCHEMA, max_rows_per_person=3)
    assert "--person COLUMN --max-rows-per-person 3" in unnamed.command("t.csv", schema="s.yaml")
    assert "COLUMN below is the column that says whose rows they are" in unnamed.paragraph()


def test_people_who_trust_only_themselves_are_pointed_to_a_survey():
    for looks in (False, True):
        with pytest.raises(UsageError, match="sfumato survey plan"):
            sf.recommend(people(), schema=SCHEMA, trust="people", epsilon=1.0, use_table=looks)


def test_a_handful_of_rows_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TableError, match="at least 40 rows"):
            sf.recommend(people(3), label="ill", use_table=True)


def test_flags_outrank_a_config_and_contradictions_are_refused(ledger, tmp_path):  # noqa: ARG001
    path = tmp_path / "config.yaml"
    Config("additive-noise", {"epsilon_record": 9.0, "noise": "exact"}, "a friend").save(path)
    card = sf.sanitize(people(), schema=SCHEMA, config=path, epsilon_record=2.0, dry_run=True).card
    assert card.guarantee["epsilon_record"] == pytest.approx(2.0, rel=1e-6)
    assert card.chosen_by == "a friend; then changed by hand"
    assert sf.sanitize(people(), schema=SCHEMA, config=path, dry_run=True).card.chosen_by == "a friend"
    with pytest.raises(UsageError, match="The config asks for additive-noise"):
        sf.sanitize(people(), schema=SCHEMA, config=path, mechanism="square-wave", dry_run=True)
    for text in ("mechanism: x", "[1, 2]", "format: sfumato-config\nversion: 1\nmechanism: x\nnoise: 3"):
        path.write_text(text)
        with pytest.raises(UsageError, match="The config"):
            sf.sanitize(people(), schema=SCHEMA, config=path, dry_run=True)


def test_a_dry_run_has_a_card_no_rows_and_leaves_no_mark(ledger):
    """Not even of a basis that it learned: nobody is shown it."""
    tried = sf.sanitize(people(), schema=SCHEMA, dry_run=True)
    assert tried.card.mechanism["name"] == "principal-laplace"
    with pytest.raises(UsageError, match="no rows"):
        _ = tried.table
    assert not ledger.exists()
    sf.sanitize(people(), schema=SCHEMA, mechanism="additive-noise", epsilon_record=1.0)
    again = sf.sanitize(people(), schema=SCHEMA, mechanism="additive-noise", epsilon_record=1.0, dry_run=True)
    assert again.card.earlier_releases["count"] == 1


def test_a_risk_that_nobody_could_try_keeps_no_limit():
    kept = {"columns": {"naive-estimate": {}}, "exposed": {"naive-estimate": []}}
    tried = replace(outcome(0.0, 0.9), extras={"naive-estimate": points(0.0)}, **kept)
    assert tried.risk == 0.0
    untried = replace(tried, not_applicable={"nearest-row": "needs the transform"})
    assert (untried.untried, untried.risk) == (["linkability"], 1.0)
    assert replace(tried, extras={}).risk == 1.0
    wish = Wish(max_risk=0.2)
    assert not wish.keeps(untried.risk, untried.loss)
    assert refuted(untried, wish)
    assert not refuted(tried, wish)
    again = averaged([tried, untried])
    assert again.untried == ["linkability"], "one trial in which nobody could link is enough"


def test_a_promise_carries_its_interval_and_an_untried_risk_stands_apart():
    """Two points inside the limit, and up to 22 by chance: so few rows cannot promise 20."""
    sure = replace(outcome(0.02, 0.85), extras={"naive-estimate": points(2.0, -1.0, 9.0)})
    wide = replace(sure, extras={"naive-estimate": points(2.0, -18.0, 22.0)})
    for found, kept in ((sure, True), (wide, False), (replace(sure, tested=20), True)):
        assert keeps(found, Wish(max_risk=0.2)) is kept
    assert not refuted(wide, Wish(max_risk=0.2))
    assert keeps(sure, Wish(max_loss=0.1))
    assert not keeps(replace(sure, tested=20), Wish(max_loss=0.1)), "of 20 rows 17 right may be 12"
    untried = replace(sure, not_applicable={"nearest-row": "needs the transform"})
    for wish in (Wish(max_loss=0.2), Wish(max_risk=1.0), Wish(epsilon=4.0)):
        assert keeps(sure, wish)
        assert not keeps(untried, wish), "linkability was not tried"
    candidate = Candidate("additive-noise", RECORD, {})
    order = [Setting(candidate, 0.5, one) for one in (untried, sure)]
    assert max(order, key=lambda one: one.rank(Wish(max_loss=0.2))).outcome is sure
    assert sure.of_use
    assert not replace(sure, tested=6).of_use, "5 of 6 right may be chance where the commonest class has half"


def test_epsilon_is_that_for_values_and_presence_stands_beside_it():
    """A release with presence 1 has values of about 1.6: it does not keep a wish for 1."""
    schema = trial_schema(SCHEMA)
    ground = Ground.of(schema, people(200, 1), people(100, 2), ("naive-bayes",))
    how = Trial(learners=("naive-bayes",), attacks=())
    found = trial(ground, "tree-resampling", {"epsilon": 1.0, "delta": 1e-6}, 0, how)
    assert found.presence == pytest.approx(1.0, rel=1e-6)
    assert 1.5 < found.epsilon < 1.8
    assert not proves(found, Wish(epsilon=1.0))
    assert proves(found, Wish(epsilon=2.0))


def test_what_an_adversary_gains_carries_its_interval_and_the_widest_is_named():
    extras = {"linker": Points(26.0, 20.0, 3.0, 9.0), "membership": Points(51.0, 50.0, -12.0, 14.0, pairs=True)}
    words = _strongest(replace(outcome(0.06, 0.8), extras=extras))
    assert "linker gets most: right 26.0 of 100 times, 20.0 without the release" in words
    assert "extra +6.0 of 100 (95%: +3.0 to +9.0)" in words
    assert "By chance alone membership could get up to +14.0" in words
    assert "By chance" not in _strongest(replace(outcome(0.06, 0.8), extras={"linker": extras["linker"]}))


def test_two_fits_together_cost_less_than_their_epsilons_added():
    one = Values(central=Central(rho=0.1, delta=1e-6, replaced=0.2))
    both = one + one + Values(local=1.0)
    assert (both.local, both.delta) == (1.0, 1e-6)
    assert both.central.rho == pytest.approx(0.2)
    assert one.epsilon < both.epsilon - 1.0 < 2 * one.epsilon
    assert (Values(local=1.0) + Values(local=2.0)).epsilon == 3.0


def test_an_answer_by_rule_imports_neither_attackers_nor_learners():
    """An owner waits for the import, not for the arithmetic."""
    run = """
import sys
from sfumato.advising.recommend import recommend
import sfumato.advising.advice
heavy = {"scipy.stats", "sklearn", "pandas", "sfumato.attacks", "sfumato.advising.trial"} & sys.modules.keys()
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", run], check=True)


@pytest.mark.parametrize("epsilon", [math.nan, -1.0, 0.0, 1e9])
def test_an_epsilon_that_sanitize_refuses_is_refused_here_too(epsilon):
    with pytest.raises(UsageError, match="--epsilon must be above 0 and at most 100"):
        advise(Wish(epsilon=epsilon), Known("ill", 500))
    for share in (1.5, math.nan):
        with pytest.raises(UsageError, match="--max-loss must be at least 0 and at most 1"):
            advise(Wish(max_loss=share), Known("ill", 500))


def test_what_is_practically_unprotected_is_said_first_and_not_called_recommended():
    for wish in (Wish(epsilon=50.0), Wish(max_risk=0.999999), Wish(epsilon=8.0, trust="nobody")):
        said = advise(wish, Known("ill", 6_000)).paragraph()
        assert re.match(r"(\d of \d+ public tables of this size learned nothing\. )?Practically unprotected", said)
        assert "The rule's choice" in said
    assert "unprotected" not in advise(Wish(epsilon=4.0, trust="nobody"), Known("ill", 6_000)).paragraph()


def test_a_setting_that_trials_choose_is_called_unprotected_where_it_is():
    """Measured within the wish, and an epsilon of 24 if it were proved."""
    found = replace(outcome(0.02, 0.85), kind="empirical-only", epsilon=None, conditional=23.7)
    setting = Setting(Candidate("additive-noise", RECORD, {}), 0.5, found)
    told = [Wish(max_risk=0.3), setting, "confirmed", found, [setting], {}, "table", 500, "ill"]
    said = Recommendation(*told).paragraph()
    assert said.startswith("Practically unprotected: epsilon 23.7, and not even that is proved.")
    assert "Recommended" not in said
    told[3] = replace(found, conditional=4.0)
    assert "Recommended: additive-noise" in Recommendation(*told).paragraph()


def test_a_forecast_says_where_no_public_table_is_like_this_one():
    towns = sf.Column("town", "categorical", categories=tuple(f"t{i}" for i in range(40)), **KNOWN)
    table = people().append_column("town", pa.array([f"t{i % 40}" for i in range(60)]))
    found = sf.recommend(table, schema=sf.Schema((*SCHEMA.columns, towns)), epsilon=8.0)
    assert "None of them has a column of more than 10 categories; yours has town" in found.paragraph()
    assert "categories; yours" not in sf.recommend(people(), schema=SCHEMA, epsilon=8.0).paragraph()


def test_a_forecast_says_where_no_public_table_has_so_many_classes():
    classes = tuple(f"c{i}" for i in range(40))
    schema = sf.Schema((*SCHEMA.private, sf.Column("branch", "categorical", role="label", categories=classes, **KNOWN)))
    table = people().select([column.name for column in SCHEMA.private])
    table = table.append_column("branch", pa.array([f"c{i % 40}" for i in range(table.num_rows)]))
    found = sf.recommend(table, schema=schema, epsilon=8.0)
    assert "None of them has a column of more than 10 categories; yours has branch" in found.paragraph()


def test_fewer_rows_than_were_ever_tried_are_promised_nothing_of_their_own():
    """From epsilon 2 on tables of 60 rows learned; what those of three rows do was never seen."""
    said = sf.recommend(people(), schema=SCHEMA, epsilon=0.25, trust="nobody", rows=3).paragraph()
    assert said.startswith(
        "At this epsilon tables of 60 rows, the smallest that were tried, teach nothing. From epsilon"
    )


def test_a_wish_that_only_epsilon_zero_keeps_is_refused():
    with pytest.raises(UsageError, match="comes to epsilon 0 at delta 1e-06"):
        sf.recommend(people(), schema=SCHEMA, max_risk=1e-6)


def test_no_epsilon_is_proposed_that_sanitize_would_refuse():
    """Of a person with very many rows each row would need more than there is."""
    crowd = advise(Wish(epsilon=1.0), Known("ill", 500, rows_per_person=10**9))
    assert not crowd.met
    assert "From epsilon" not in crowd.why_not()
    several = advise(Wish(max_loss=0.2), Known("ill", 2_500, rows_per_person=2))
    alone = advise(Wish(max_loss=0.2), Known("ill", 2_500))
    assert several.bound.epsilon == pytest.approx(2 * alone.bound.epsilon, rel=0.02), "the loss is kept for both rows"


def test_the_exception_stands_beside_every_figure_that_has_one():
    said = advise(Wish(epsilon=1.0), Known("ill", 500)).paragraph()
    assert said.count("except with probability 1e-06") >= 2
    assert "of 100 pairs, except with probability 1e-06" in said
