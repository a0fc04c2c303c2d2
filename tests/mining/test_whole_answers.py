"""Shares of answers behind the bits of a guided survey: unbiased, with intervals that hold, or refused."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels import Recipe
from sfumato.channels.guidance.space import AnswerSpace, bit_probabilities, score_bits
from sfumato.channels.maps import Guided
from sfumato.channels.response import Bit
from sfumato.core.errors import UsageError
from sfumato.learn.mining.seen import Part
from sfumato.learn.rules import WholeAnswers, answers_of, frequency, frequent, rule_of
from sfumato.table import Column, Encoding, Schema

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")
SIZES = (2, 2, 3)
SPACE = AnswerSpace(SIZES)
T = SPACE.onehot(SPACE.every()).astype(float)
SHARES = np.array([0.25, 0.02, 0.03, 0.05, 0.10, 0.05, 0.02, 0.08, 0.10, 0.05, 0.05, 0.20])
PAIR = (("q0", "1"), ("q2", "2"))
TRUE = float(SHARES[[8, 11]].sum())
LINKS = ("square", "linear")


def encoding(sizes=SIZES):
    names = [tuple(map(str, range(size))) for size in sizes]
    return Encoding(Schema(tuple(Column(f"q{i}", "categorical", categories=one) for i, one in enumerate(names))))


def guided(k, rng, floor=0.1, link="square", sizes=SIZES):
    V = np.linalg.qr(rng.normal(size=(sum(sizes), k)))[0]
    return Recipe(encoding(sizes), Guided(V, "drawn"), (Bit(floor, link),) * sum(sizes))


def sent(recipe, rows, rng):
    """Bits of people, and a class that goes with the first question: .9 and .3 of them are of class b."""
    t = rng.choice(len(T), rows, p=SHARES)
    y = (rng.random(rows) < np.where(T[t][:, 0] > 0, 0.3, 0.9)).astype(int)
    return Part(recipe.perturb(T[t], rng), recipe, recipe.channels), ("class", ("a", "b"), y, 1.0)


@pytest.mark.parametrize("link", LINKS)
def test_rows_of_bits_have_the_mean_of_the_answer(link):
    """Over all 2^7 bits, of two versions with different shares of the rows: the mean is e_t, whatever t is."""
    rng = np.random.default_rng(0)
    every = ((np.arange(128)[:, None] >> np.arange(7)) & 1).astype(float)
    recipes = [guided(4, rng, link=link), guided(5, rng, link=link)]
    parts = [Part(np.tile(every, (times, 1)), one, one.channels) for times, one in zip((1, 3), recipes, strict=True)]
    found = WholeAnswers.of(parts)
    mean = np.zeros((len(T), 2))
    for place, share in enumerate((0.25, 0.75)):
        law = np.exp(score_bits(every.astype(float), bit_probabilities(T, recipes[place].map.V, 0.1, link)))
        assert law.sum(axis=0) == pytest.approx(1.0)
        counts = [found.counts(place, items)[:128] for items in (PAIR, PAIR[:1])]
        mean += share * law.T @ np.column_stack(counts)
    among = np.column_stack([(T[:, 1] * T[:, 6]), T[:, 1]])
    assert mean == pytest.approx(among, abs=1e-6)


def test_intervals_hold_the_truth_and_not_what_is_30_percent_off():
    rng = np.random.default_rng(1)
    recipes = [guided(k, rng, link=link) for k, link in ((5, "square"), (6, "linear"), (4, "square"))]
    held, off, rules = [], [], []
    for _ in range(40):
        parts, labels = zip(*[sent(one, 8_000, rng) for one in recipes], strict=True)
        answers = answers_of(parts, labels, ())
        one = frequency(answers, PAIR, 0.95)
        held.append(one.low <= TRUE <= one.high)
        off.append(one.low <= 0.7 * TRUE <= one.high or one.low <= 1.3 * TRUE <= one.high)
        rules.append(rule_of(answers, (("q0", "1"),), ("class", "b"), 0.95, 1))
    assert np.mean(held) >= 0.87
    assert np.mean(off) <= 0.05
    assert np.mean([one.confidence.low <= 0.9 <= one.confidence.high for one in rules]) >= 0.87
    assert max(one.confidence.high for one in rules) - min(one.confidence.low for one in rules) < 0.3
    assert max(one.chance for one in rules) < 1e-6


def test_one_direction_tells_no_share_and_is_refused():
    rng = np.random.default_rng(2)
    part, label = sent(guided(1, rng), 5_000, rng)
    answers = answers_of([part], [label], ())
    assert not frequency(answers, PAIR, 0.95).error <= 1
    with pytest.raises(
        UsageError, match=r"Not applicable: guidance of so few directions .* more than any number of such rows"
    ):
        frequent(answers, 2, 0.05, 0.95)


def test_few_rows_are_refused_with_how_many_it_would_take():
    rng = np.random.default_rng(3)
    part, _ = sent(guided(4, rng), 40, rng)
    with pytest.raises(UsageError, match=r"The surest would take about [\d,]+ such rows"):
        frequent(answers_of([part], [None], ()), 2, 0.05, 0.95)


def test_many_questions_are_refused():
    rng = np.random.default_rng(4)
    recipe = guided(3, rng, sizes=(2,) * 9)
    X = np.tile([1.0, 0.0], (50, 9))
    with pytest.raises(UsageError, match="512 different answers are possible"):
        answers_of([Part(recipe.perturb(X, rng), recipe, recipe.channels)], [None], ())


def test_rules_of_a_release_as_an_analyst_asks_for_them():
    rng = np.random.default_rng(5)
    t = rng.choice(len(T), 4_000, p=SHARES)
    codes = SPACE.codes(T[t].astype(np.uint8)).astype(str)
    people = {f"q{i}": np.char.add("c", codes[:, i]) for i in range(3)}
    people["class"] = np.where(codes[:, 0] == "1", "b", "a")
    schema = sf.Schema.infer(people, "class")
    release = sf.sanitize(people, schema=schema, mechanism="guided-projection", parameters={"k": 7}, seed=1)
    found = sf.rules(release, columns=["q0", "q2", "class"])
    shares = {(one["first"], one["second"]): one for one in found.pairs.to_pylist()}
    one = shares["q0=c1", "q2=c2"]
    assert one["low"] <= np.mean((codes[:, 0] == "1") & (codes[:, 2] == "2")) <= one["high"]
    assert one["high"] - one["low"] < 0.25
    assert {"class", "q0", "q2"} == {pair.partition("=")[0] for both in shares for pair in both}
    assert "under which guidance" in found.warnings[0]
    assert found.about["untold"] == 0
