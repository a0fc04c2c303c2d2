"""An epsilon and nothing else: made-up or blurred rows, proved for anybody's values, and never less than asked."""

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.core.errors import SchemaError, UsageError
from sfumato.guarantee import epsilon_for_posterior
from sfumato.guarantee.cost import Central, epsilon_of, loss_of_rho, posterior_bound
from sfumato.mechanisms import make_mechanism

KNOWN = {"source": "public", "reason": "form 17b"}
AGE = sf.Column("age", "integer", low=0, high=120, **KNOWN)
DOSE = sf.Column("dose", "numeric", low=0.0, high=10.0, **KNOWN)
ILL = sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN)
SCHEMA = sf.Schema((AGE, DOSE, ILL))


def people(n=400):
    rng = np.random.default_rng(4)
    ill = rng.random(n) < 0.4
    return pd.DataFrame({"age": rng.integers(20, 90, n), "dose": 10 * rng.random(n), "ill": np.where(ill, "yes", "no")})


def card(**words):
    return sf.sanitize(people(), **{"schema": SCHEMA, **words}).card


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_an_epsilon_alone_gets_made_up_rows_whose_values_cost_no_more(delta):
    found = card(epsilon=1.0, delta=delta)
    assert (found.mechanism["name"], found.guarantee["kind"]) == ("tree-resampling", "central-dp")
    central = Central.from_dict(found.guarantee["central"])
    assert 0.85 < central.value.epsilon <= 1.0 + 1e-9
    assert central.epsilon < 0.7 * central.value.epsilon  # presence costs less, and stands beside it


@pytest.mark.parametrize(("epsilon", "method"), [(2.9, "square-wave"), (3.0, "piecewise-noise")])
def test_where_nobody_is_trusted_each_row_is_blurred_by_itself(epsilon, method):
    found = card(epsilon=epsilon, trust="nobody")
    assert (found.mechanism["name"], found.guarantee["kind"]) == (method, "local-dp")
    assert found.guarantee["epsilon_record"] == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("words", [{"private_label": True}, {"only_new": True}, {"out_of_bounds": "refuse"}])
def test_an_option_that_needs_the_row_chooses_a_method_that_has_it(words):
    release = sf.sanitize(people(), schema=SCHEMA, epsilon=2.0, **words)
    assert release.card.mechanism["name"] == "square-wave"
    assert "needs each row itself" in release.told.notes["method"]


@pytest.mark.parametrize("off", [0, np.False_])
def test_an_option_that_is_off_in_another_spelling_is_no_option(off):
    words = dict.fromkeys(("private_label", "only_new", "like_original", "measured_only"), off)
    assert card(epsilon=1.0, **words).mechanism["name"] == "tree-resampling"


def test_where_nobody_is_trusted_no_option_chose_the_method():
    asked = sf.sanitize(people(), schema=SCHEMA, epsilon=2.0, trust="nobody", private_label=True)
    assert "method" not in asked.told.notes


def test_ranges_that_were_read_off_the_table_stand_in_the_way_and_are_named():
    with pytest.warns(sf.PrivacyLeakWarning), pytest.raises(SchemaError, match=r"3 columns \(age, dose, ill\)"):
        sf.sanitize(people(), label="ill", epsilon=1.0)
    with pytest.warns(sf.PrivacyLeakWarning):
        found = sf.sanitize(people(), label="ill", epsilon=1.0, measured_only=True).card
    assert (found.mechanism["name"], found.guarantee["kind"]) == ("square-wave", "empirical-only")


def test_what_can_be_proved_is_not_measured_only():
    """It was proved all the same, and of blurred rows."""
    for words in ({}, {"trust": "nobody"}):
        with pytest.raises(UsageError, match=r"^Nothing stands in the way of a proof: .* Leave --measured-only out"):
            card(epsilon=1.0, measured_only=True, **words)
    with pytest.raises(UsageError, match=r"--measured-only .* without a method"):
        card(epsilon=1.0, measured_only=True, mechanism="additive-noise")


def test_it_means_the_same_in_both_kinds_and_never_a_component():
    """`randomized-response --epsilon 4` was a record of 4 for every column."""
    by_row = card(epsilon=4.0, mechanism="additive-noise").guarantee
    assert by_row["epsilon_record"] == pytest.approx(4.0, rel=1e-3)
    drawn = Central.from_dict(card(epsilon=4.0, mechanism="tree-resampling").guarantee["central"])
    assert drawn.value.epsilon <= 4.0 + 1e-9
    literature = Central.from_dict(card(epsilon_presence=1.0, mechanism="tree-resampling").guarantee["central"])
    assert 0.95 < literature.epsilon <= 1.0


def test_all_rows_of_a_person_together():
    named = people().assign(id=np.repeat(np.arange(200), 2))
    schema = sf.Schema((*SCHEMA.columns, sf.Column("id", "categorical", role="person", **KNOWN)))
    with pytest.raises(UsageError, match="--max-rows-per-person"):
        sf.sanitize(named, schema=schema, epsilon=1.0)
    drawn = sf.sanitize(named, schema=schema, epsilon=1.0, max_rows_per_person=2).card
    assert Central.from_dict(drawn.guarantee["central"]).group(2).value.epsilon <= 1.0 + 1e-9
    blurred = sf.sanitize(named, schema=schema, epsilon=1.0, max_rows_per_person=2, trust="nobody").card
    assert blurred.guarantee["epsilon_person"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("words", [{"epsilon": 4.0}, {"epsilon": 4.0, "label_epsilon": 0.5}, {"max_posterior": 0.8}])
def test_all_rows_of_a_person_together_with_the_column_to_predict(words):
    """Its share was taken off the bound once, and spent for every row: 4 came to 8."""
    named = people().assign(id=np.repeat(np.arange(80), 5))
    schema = sf.Schema((*SCHEMA.columns, sf.Column("id", "categorical", role="person", **KNOWN)))
    found = sf.sanitize(named, schema=schema, max_rows_per_person=5, private_label=True, **words).card.guarantee
    most = epsilon_for_posterior(0.1, 0.8)
    assert found["epsilon_person"] == pytest.approx(words.get("epsilon", most), rel=1e-3)
    assert found["epsilon_person"] <= words.get("epsilon", most) * (1 + 1e-9)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_it_is_never_charged_as_more_than_asked(epsilon, rows):
    """In the last digit it was: 4 was shown as 4.01, and went beyond a budget of 4."""
    found = make_mechanism("tree-resampling", {})
    planned = make_mechanism("tree-resampling", found.strength_for_values(epsilon, rows=rows)).planned
    assert 0.999999 * epsilon < planned.group(rows).value.epsilon <= epsilon


def test_how_sure_somebody_may_become_holds_but_for_delta():
    """From 1 chance in 10 to 2 in 10: the loss itself is bounded, which costs a little more than epsilon."""
    central = Central.from_dict(card(max_posterior=0.2, mechanism="tree-resampling").guarantee["central"])
    loss = loss_of_rho(central.value.rho, central.delta)
    assert 0.17 < posterior_bound(0.1, loss) <= 0.2 + 1e-9
    assert epsilon_of(central.value.rho, 1e-6) < loss


@pytest.mark.parametrize("prior", [None, 0.01])
def test_how_sure_somebody_may_become_chooses_the_method_as_an_epsilon_does(prior):
    """In 0.2 it alone got principal-laplace, whose basis is read off the table: nothing was proved."""
    found = card(max_posterior=0.2, prior=prior)
    assert (found.mechanism["name"], found.guarantee["kind"]) == ("tree-resampling", "central-dp")
    cost = Central.from_dict(found.guarantee["central"]).value
    assert 0.85 * 0.2 < posterior_bound(prior or 0.1, loss_of_rho(cost.rho, cost.delta)) <= 0.2 + 1e-9


@pytest.mark.parametrize(("most", "method"), [(0.2, "square-wave"), (0.8, "piecewise-noise")])
def test_under_trust_nobody_it_blurs_each_row_with_the_epsilon_that_it_comes_to(most, method):
    found = card(max_posterior=most, trust="nobody")
    assert (found.mechanism["name"], found.guarantee["kind"]) == (method, "local-dp")
    assert posterior_bound(0.1, found.guarantee["epsilon_record"]) == pytest.approx(most, rel=1e-3)


@pytest.mark.parametrize("trust", ["owner", "nobody"])
def test_it_is_recommends_answer(trust):
    """The same parameters as `recommend` writes, for a person with two rows too."""
    named = people().assign(id=np.repeat(np.arange(200), 2))
    schema = sf.Schema((*SCHEMA.columns, sf.Column("id", "categorical", role="person", **KNOWN)))
    words = {"max_posterior": 0.3, "trust": trust, "max_rows_per_person": 2}
    advice = sf.recommend(named, schema=schema, **words).parameters
    used = sf.sanitize(named, schema=schema, **words).card
    assert {name: used.mechanism["parameters"][name] for name in advice} == pytest.approx(advice, rel=1e-6)
    assert "a person's 2 rows together can lift a fact from 1 chance in 10 to at most" in used.guarantee["words"]
    if trust == "nobody":  # what made-up rows measure in fewer steps than planned costs less
        assert "from 1 chance in 10 to at most 3 in 10" in used.guarantee["words"]


def test_ranges_that_were_read_off_the_table_stand_in_its_way_too():
    with pytest.warns(sf.PrivacyLeakWarning), pytest.raises(SchemaError, match=r"3 columns \(age, dose, ill\)"):
        sf.sanitize(people(), label="ill", max_posterior=0.2)
    with pytest.warns(sf.PrivacyLeakWarning):
        found = sf.sanitize(people(), label="ill", max_posterior=0.2, measured_only=True).card
    assert (found.mechanism["name"], found.guarantee["kind"]) == ("square-wave", "empirical-only")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"max_posterior": 0.2, "epsilon_presence": 1.0}, "Give one of them"),
        ({"trust": "nobody"}, "--epsilon or --max-posterior"),
        ({"epsilon": 1.0, "epsilon_record": 2.0}, "the same bound"),
        ({"epsilon": 1.0, "max_posterior": 0.5}, "not both"),
        ({"epsilon": 1.0, "trust": "people"}, "--trust must be owner or nobody"),
        ({"epsilon": 0.0}, "above 0|positive"),
        ({"epsilon": float("nan")}, "above 0|positive"),
    ],
)
def test_wrong_wishes(words, said):
    with pytest.raises(UsageError, match=said):
        card(**words)
