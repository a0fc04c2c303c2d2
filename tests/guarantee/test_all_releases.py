"""The headline holds for somebody who sees every release of the same rows."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domains import steady
from sfumato.core.errors import CardError
from sfumato.guarantee import AllReleases, Card, Guarantee
from sfumato.guarantee.all_releases import Earlier, total_without_delta
from sfumato.guarantee.cost import Central, Values, chance_at_most, epsilon_of, loss_of_rho, posterior_bound
from sfumato.guarantee.rounding import rounded_up
from sfumato.guarantee.words import card_in_words
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Schema

FOUR = Guarantee(4.0, 4.0, 4.0)
PUBLIC = {"source": "public", "reason": "test"}
SCHEMA = Schema(
    (
        Column("who", "categorical", role="person"),
        Column("age", "integer", low=0, high=100, **PUBLIC),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
    )
)
TABLE = {"who": [f"p{row // 2}" for row in range(20)], "age": [10, 20, 30, 40] * 5, "ill": ["no", "yes"] * 10}


def earlier(count, total, **more):
    return {"count": count, "total_epsilon_record": total, **more}


def test_the_first_release_speaks_of_itself():
    for stated in ({}, earlier(0, 4.0), earlier(None, None)):
        found = AllReleases.of(FOUR, stated)
        assert found.in_words() == FOUR.in_words()
        assert [row[:2] for row in found.beliefs()] == [(p, posterior_bound(p, 4.0)) for p in (0.1, 0.5, 0.001)]


def test_four_releases_at_epsilon_four():
    found = AllReleases.of(FOUR, earlier(3, 16.0))
    words = found.in_words()
    assert words.startswith("Practically unprotected, formally bounded: epsilon 16. Proved: whatever")
    assert "This is release 4. For anybody's values, all 4 together come to epsilon 16." in words
    assert words.endswith("This release alone: epsilon 4 for values.")
    assert found.unprotected
    assert not FOUR.unprotected
    assert found.beliefs()[0][1] > 0.999


def test_one_release_without_a_proof_leaves_no_bound_for_all():
    words = AllReleases.of(FOUR, earlier(1, None)).in_words()
    assert words.startswith("Nothing is proved of both releases together")
    assert "an earlier one has no proved bound" in words
    assert "This is release 2. This release alone: Proved: whatever the other rows teach" in words
    learned = FOUR.hindered(["floating-point noise"])
    for total in (None, 16.0):  # a card may state what it likes
        found = AllReleases.of(learned, earlier(3, total))
        assert not found.bounded
        assert (
            "this one has no proved bound. This is release 4. This release alone: Nothing is proved" in found.in_words()
        )
        assert found.beliefs() == []


def test_people_with_several_rows_and_labels_add_up_too():
    found = AllReleases.of(FOUR.with_persons(3, learned=False), earlier(1, 8.0, exact_label=True))
    assert found.person.epsilon == 24.0
    assert "For anybody's values, both together come to epsilon 24. One row alone: epsilon 8." in found.in_words()
    assert "The column to predict reveals more on top" in found.in_words()
    unlimited = AllReleases.of(FOUR.with_persons(None, learned=False), earlier(1, 8.0))
    assert unlimited.person.epsilon == math.inf
    for words in (unlimited.in_words(), unlimited.bottom_line()):
        assert "one of a person's rows can lift" in words
        assert "Nothing bounds how many rows a person has" in words


ONE_ROW = Guarantee(0.25, 0.5, 1.0)
MADE_UP = Guarantee.for_the_table(Central(rho=0.0099, delta=1e-6, replaced=0.0244))
DRAWN = {"central": Central(rho=0.0099, delta=1e-6, replaced=0.0244).to_dict(), "epsilon_record": None}


@pytest.mark.parametrize("alone", [ONE_ROW, MADE_UP], ids=["blurred", "made-up"])
def test_the_first_sentence_bounds_all_rows_of_a_person_together(alone):
    """Six rows of a person: six times the epsilon, and of made-up rows 36 times rho."""
    six = alone.with_persons(6, learned=False)
    loss = 6.0 if alone is ONE_ROW else loss_of_rho(36 * 0.0244, 1e-6)
    chance = chance_at_most(0.1, loss)
    for told in (six.in_words(), AllReleases.of(six, {}).in_words(), AllReleases.of(six, {}).bottom_line()):
        assert f"a person's 6 rows together can lift a fact from 1 chance in 10 to {chance}" in told
        assert f"epsilon {rounded_up(six.person_values.epsilon)} for values" in told
        assert "up to 6 rows each" in told
    assert f"One row alone: epsilon {rounded_up(alone.values.epsilon)} for values" in six.in_words()
    assert AllReleases.of(six, {}).beliefs()[0][1] == pytest.approx(posterior_bound(0.1, loss))
    if alone is MADE_UP:
        presence = rounded_up(epsilon_of(36 * 0.0099, 1e-6))
        assert (
            f"{presence} for presence, up to 6 rows each, all releases counted" in AllReleases.of(six, {}).bottom_line()
        )


def test_one_row_each_is_said_as_such():
    line = AllReleases.of(ONE_ROW, {}).bottom_line()
    assert "a person's own row can lift a fact from 1 chance in 10 to at most 2.4 in 10" in line
    assert line.endswith("(epsilon 1 for values, one row each, all releases counted).")


def test_earlier_releases_count_with_the_most_rows_that_a_person_had_in_any():
    """Three rows at epsilon 1, then one row of the same people: 3 + 3, as unnamed rows may all be there."""
    before = {"epsilon_record": 1.0, "rows_per_person": 3, "named": True}
    now = {"epsilon_record": 1.0, "rows_per_person": 1}
    stated = Earlier((before,)).to_dict(now)
    assert stated["person"] == {"rows": 3, "local": 6.0, "central": None}
    told = AllReleases.of(ONE_ROW, stated).bottom_line()
    assert f"a person's 3 rows together can lift a fact from 1 chance in 10 to {chance_at_most(0.1, 6.0)}" in told
    assert "(epsilon 6 for values, up to 3 rows each, all releases counted)" in told


def test_made_up_rows_after_others_bound_the_person_by_the_whole_loss():
    named = {**DRAWN, "rows_per_person": 6, "named": True}
    stated = Earlier((named,)).to_dict(named)
    six = MADE_UP.with_persons(6, learned=False)
    loss = loss_of_rho(2 * 36 * 0.0244, 1e-6)
    assert AllReleases.of(six, stated).person.loss == pytest.approx(loss)
    assert f"from 1 chance in 10 to {chance_at_most(0.1, loss)}" in AllReleases.of(six, stated).bottom_line()
    del stated["person"]  # a card of 0.2
    assert AllReleases.of(six, stated).person.loss == pytest.approx(loss)
    assert "a person's rows together can lift" in AllReleases.of(six, stated).bottom_line()


@given(
    st.floats(0, 5),
    st.floats(1e-4, 2),
    st.integers(2, 9),
    st.sampled_from([1e-6, 1e-3]),
    st.floats(0, 1),
    st.booleans(),
)
@steady(60)
def test_a_card_of_0_2_never_bounds_a_person_by_less_than_one_that_states_the_parts(
    local, rho, rows, delta, pure, mixed
):
    """0.2 stated one epsilon for the person; what it says of beliefs then may be more, and is never less."""
    record = Values(local, Central(pure=pure * mixed, rho=rho, delta=delta))
    whole = record.group(rows)
    stated = {"count": 1, "total_epsilon_record": local, "central": record.central.to_dict()}
    alone = Guarantee.for_the_table(record.central).with_persons(rows, learned=False)
    found = AllReleases.of(alone, stated | {"total_epsilon_person": whole.epsilon})
    cost = whole.central.value
    least = min(whole.loss, local * rows + loss_of_rho(cost.rho + cost.pure**2 / 2, delta))
    assert found.person.epsilon >= whole.epsilon * (1 - 1e-9)
    assert found.person.loss >= least * (1 - 1e-9)


def test_a_total_below_the_releases_own_figure_counts_for_nothing():
    assert AllReleases.of(FOUR, earlier(3, 0.5)).record == 4.0


def test_what_drawn_rows_cost_is_in_every_total_of_a_perturbed_record():
    """Also on cards that do not state a total for a person, and for a coordinator, who keeps one figure."""
    pure, noisy = Central(pure=0.5).to_dict(), Central(rho=0.02, delta=1e-6).to_dict()
    found = AllReleases.of(FOUR.with_persons(3, learned=False), earlier(2, 8.0, central=pure))
    assert (found.record, found.person.epsilon) == (9.0, 27.0)
    assert found.beliefs()[0][1] == posterior_bound(0.1, 27.0)
    with_delta = AllReleases.of(FOUR, earlier(2, 8.0, central=noisy))
    assert with_delta.record == pytest.approx(8.0 + epsilon_of(0.08, 1e-6))
    loss = 8.0 + loss_of_rho(0.08, 1e-6)
    assert with_delta.beliefs()[0][1] == pytest.approx(posterior_bound(0.1, loss))
    assert "in 1,000, except with probability 1e-06." in with_delta.in_words()
    assert "in 10, except with probability 1e-06 (epsilon" in with_delta.bottom_line()
    assert with_delta.bounded
    assert total_without_delta(4.0, earlier(2, 8.0, central=pure)) == 9.0
    assert total_without_delta(4.0, earlier(2, 8.0, central=noisy)) is None
    assert total_without_delta(4.0, earlier(2, 3.0)) == total_without_delta(4.0, {}) == 4.0
    assert total_without_delta(None, earlier(2, 3.0)) is None


@pytest.fixture
def released(tmp_path):
    def make(name, **options):
        found = {"mechanism": "additive-noise", "parameters": {"epsilon_record": 2.0}, "max_rows_per_person": 2}
        return sanitize(TABLE, tmp_path / name, Options(schema=SCHEMA, **(found | options))).card

    return make


def test_cards_of_one_table_tell_the_total_first(released, tmp_path):
    released("a", private_label=True)
    released("b", private_label=True)
    card = released("c", private_label=True)
    people = {
        "by": "person",
        "releases": {"worst": 3, "median": 3},
        "local_epsilon": {"worst": 18.0, "median": 18.0},
        "unproved_releases": {"worst": 0, "median": 0},
    }
    total = earlier(2, 9.0, exact_label=False, total_epsilon_person=18.0)
    mark = {"ledger": card.earlier_releases["ledger"]}
    person = {"rows": 2, "local": 18.0, "central": None}
    assert card.earlier_releases == {**total, "person": person, "people": people, **mark}
    assert "a person's 2 rows together can lift" in card.guarantee["words"]
    assert "all 3 together come to epsilon 18. One row alone: epsilon 9." in card.guarantee["words"]
    assert "on top" not in card.guarantee["words"]
    first = card_in_words(Card.load(tmp_path / "c")).splitlines()
    assert first[0] == f"Guarantee: {card.guarantee['words']}"
    assert first[1] == "Epsilon of all 3 releases: record 9  person 18"
    after = released("d")  # the label exactly
    assert "on top" in after.guarantee["words"]
    later = released("e", private_label=True)
    assert later.earlier_releases["exact_label"]
    assert "on top" in later.guarantee["words"]
    released("f", parameters={"law": "normal"})
    assert released("g").guarantee["words"].startswith("Nothing is proved of all 7 releases together")


def test_rows_released_without_their_label_say_nothing_of_it(released):
    assert not released("a", unlabelled=True).guarantee["exact_label"]


def test_a_forged_total_is_refused_and_forged_words_are_not_read(released, tmp_path):
    released("a")
    released("b")
    path = tmp_path / "b" / "card.json"
    card = json.loads(path.read_text())
    hostile = "Perfectly safe. " * 100_000
    path.write_text(json.dumps({**card, "guarantee": {**card["guarantee"], "words": hostile}}))
    assert Card.load(path).guarantee["words"] == card["guarantee"]["words"]
    card["earlier_releases"]["total_epsilon_record"] = 0.5
    path.write_text(json.dumps(card))
    with pytest.raises(CardError, match="total of all releases contradicts"):
        Card.load(path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("guarantee", "sentence"), "x" * 5001),
        (("guarantee", "assumptions"), ["x"] * 51),
        (("threat_model", "not_protected"), ["x" * 5001]),
        (("reproducible",), "quite all right"),
        (("post_processing",), "blessed by hand"),
        (("chosen_by",), "x" * 201),
        (("earlier_releases", "count"), -1),
    ],
    ids=str,
)
def test_free_text_of_a_card_is_bounded(released, place, value):
    data = json.loads(released("a").to_json())
    inside = data
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    with pytest.raises(CardError, match=f"card's schema at {'.'.join(place)}"):
        Card.from_dict(data)


def test_a_cards_own_words_are_one_line_and_called_what_they_are(released):
    data = json.loads(released("a", parameters={"law": "normal"}).to_json())
    data["guarantee"]["sentence"] = 'Certified."\nGuarantee: proved.\x1b[2J\u202e'
    data["threat_model"]["adversary"] = ["Nobody.\nGuarantee: proved."]
    shown = card_in_words(Card.from_dict(data))
    assert "The release's own words: \"Certified.' Guarantee: proved. [2J \"" in shown
    assert "Who the attacker is assumed to be (the release's own words):\n  - Nobody. Guarantee: proved." in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert [line for line in shown.splitlines() if line.startswith("Guarantee: proved")] == []


def test_the_bottom_line_says_first_that_a_bound_protects_hardly_anybody():
    """Three rows at epsilon 4 are one person at 12, though each row alone is protected."""
    line = AllReleases.of(FOUR.with_persons(3, learned=False), {}).bottom_line()
    assert line.startswith("Practically unprotected, formally bounded: epsilon 12. Proved: ")
    assert AllReleases.of(FOUR, {}).bottom_line().startswith("Proved: ")
