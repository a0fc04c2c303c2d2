"""Adversaries of a guided survey: what they read without a floor, and that a floor stops certainty."""

import numpy as np
import pytest
from knowing import told
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from domains import domain
from sfumato.attacks.base import Abstain, Knowledge
from sfumato.attacks.malicious_miner import (
    KINDS,
    MaliciousMiner,
    RogueRespondent,
    plus_minus,
    separation,
    unit_vectors,
)
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.attacks.posterior_breach import PosteriorBreach, PosteriorGuess
from sfumato.attacks.row_ratios import Membership
from sfumato.channels import Bit, Guided
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules, check_guidance
from sfumato.channels.guidance.space import AnswerSpace, bit_probabilities, perturb_bits
from sfumato.core.errors import UsageError

SPACE = AnswerSpace([2] * 16)


@pytest.fixture(scope="module")
def people():
    return np.random.default_rng(0).integers(0, 2, (900, 16))


# -- the malicious miner ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_its_guidance_passes_every_check_of_a_respondent(people, kind):
    V = MaliciousMiner(kind, question=3, steps=20).guidance(SPACE, people)
    assert check_guidance(V, 32, 1) is not None


@pytest.mark.parametrize("seed", range(6))
def test_pairs_of_answers_are_added_up_in_one_order(seed):
    """To the last bit: the search takes whatever is larger, so that a seed leads to one guidance."""
    space, rng = AnswerSpace([6, 4, 4, 3]), np.random.default_rng(seed)
    some = np.column_stack([rng.integers(0, size, 200) for size in space.sizes])
    V = np.linalg.qr(rng.normal(size=(space.width, 3)))[0]
    told, total = [], 0.0
    for choice in range(6):
        some[:, 0] = choice
        told.append(bit_probabilities(space.onehot(some), V, 0.1, "square"))
        for before in told[:-1]:
            overlap = np.sqrt(told[-1] * before) + np.sqrt((1 - told[-1]) * (1 - before))
            total += float((1 - np.prod(overlap, axis=1)).mean())
    assert separation(V, some, space, 0, 0.1, "square") == total / 15


def test_unit_vectors_read_everybody_without_a_floor(people):
    without = MaliciousMiner("unit", question=5).read(people, SPACE, floor=0.0)
    assert without.identified == without.right == 1.0
    with_floor = MaliciousMiner("unit", question=5).read(people, SPACE, floor=0.25)
    assert with_floor.identified == 0.0
    hits = round(with_floor.right * len(people))
    assert binomtest(hits, len(people), 0.75).pvalue > 1e-4, "three to one, as the floor says"
    assert binomtest(hits, len(people), 0.65).pvalue < 1e-6


def test_a_bound_on_row_norms_does_not_stop_plus_minus(people):
    """A third of the people are identified with certainty where no row is longer than one half."""
    found = MaliciousMiner("plus-minus", question=2, row_norm=0.5).read(people, SPACE, floor=0.0)
    assert found.row_norm <= 0.5 + 1e-12
    assert found.identified == pytest.approx(1 / 3, abs=0.05)
    even = MaliciousMiner("plus-minus", question=2, row_norm=0.2).read(people, SPACE, floor=0.0)
    assert even.row_norm <= 0.2 + 1e-12
    assert even.identified > 0.04, "people are certain even with rows hardly longer than 1 / sqrt(32) = .177"
    assert MaliciousMiner("plus-minus", question=2).read(people, SPACE, floor=0.25).identified == 0.0


@pytest.mark.parametrize("sizes", [(2, 2), (3, 2, 4), (5, 2, 2, 9, 4)])
@pytest.mark.parametrize("row_norm", [1.0, 0.4])
def test_plus_minus_projects_one_answer_to_nothing(sizes, row_norm):
    space = AnswerSpace(sizes)
    if len(sizes) == 2 and row_norm < 0.5:
        with pytest.raises(UsageError, match="two questions"):
            plus_minus(space, 0, row_norm)
        return
    v = plus_minus(space, 0, row_norm)[:, 0]
    every = space.every()
    projected = space.onehot(every) @ v
    assert np.linalg.norm(v) == pytest.approx(1)
    assert np.abs(projected[every[:, 0] == 1]).max() < 1e-12
    assert np.ptp(projected[every[:, 0] == 0]) < 1e-12
    assert projected[every[:, 0] == 0][0] > 0.1


def test_optimised_guidance_is_no_worse_than_what_it_starts_from(people):
    for floor in (0.0, 0.25):
        unit = MaliciousMiner("unit", 1).read(people, SPACE, floor)
        best = MaliciousMiner("optimised", 1, steps=15).read(people, SPACE, floor)
        assert best.right > unit.right - 0.03
        assert best.identified <= (1.0 if floor == 0 else 0.0)


def test_wrong_aims_are_refused():
    with pytest.raises(UsageError, match="kind"):
        MaliciousMiner("mean")
    with pytest.raises(UsageError, match="one choice"):
        MaliciousMiner(question=0).guidance(AnswerSpace((1, 2)))
    with pytest.raises(UsageError, match="population"):
        MaliciousMiner("optimised").guidance(SPACE)
    with pytest.raises(UsageError):
        unit_vectors(SPACE, 0, 33)
    with pytest.raises(UsageError, match="second question"):
        plus_minus(AnswerSpace((3,)), 0)


# -- the rogue respondent ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def survey(people):
    rng = np.random.default_rng(1)
    y = people[:, 0] ^ (rng.random(len(people)) < 0.1)
    V = Guidance.from_counts(SurveyCounts.of(SPACE.onehot(people), y), SurveyRules(floor=0.0, k=3)).V
    return perturb_bits(SPACE.onehot(people), V, rng.random((len(people), 32))), y


def test_the_bits_of_a_lone_respondent_are_read(survey):
    bits, y = survey
    before, after = SurveyCounts.of(bits[:500], y[:500]), SurveyCounts.of(bits[:501], y[:501])
    found = RogueRespondent().from_counts(before, after)
    assert found.certain
    assert np.array_equal(found.bits, bits[500])


def test_sybils_who_fill_a_batch_read_the_one_left_in_it(survey):
    bits, y = survey
    victim, own = 500, slice(501, 600)
    before, after = SurveyCounts.of(bits[:500], y[:500]), SurveyCounts.of(bits[:600], y[:600])
    assert not RogueRespondent().from_counts(before, after).certain
    found = RogueRespondent().from_counts(before, after, bits[own], y[own])
    assert found.certain
    assert np.array_equal(found.bits, bits[victim])
    with pytest.raises(UsageError, match="two versions"):
        RogueRespondent().from_counts(after, before)
    with pytest.raises(UsageError, match="No other person"):
        RogueRespondent().from_counts(before, before)


def test_guidance_alone_betrays_a_lone_respondent_and_not_one_of_a_hundred(survey):
    bits, y = survey
    found = {}
    for batch in (1, 100):
        areas = []
        for start in range(300, 700, 25):
            before = SurveyCounts.of(bits[:start], y[:start])
            after = before + SurveyCounts.of(bits[start : start + batch], y[start : start + batch])
            V, W = (Guidance.from_counts(part, SurveyRules(k=3)).V for part in (before, after))
            areas.append(roc_auc_score(bits[start], RogueRespondent().from_guidance(V, W).scores))
        found[batch] = np.mean(areas)
    assert found[1] > 0.6
    assert abs(found[100] - 0.5) < 0.06


# -- posteriors -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known():
    """Bits of 400 people whose questions hang together, and 1,500 others of the same kind."""
    rng = np.random.default_rng(4)
    first = rng.integers(0, 2, 1900)
    codes = np.column_stack([first ^ (rng.random(1900) < flip) for flip in (0.02, 0.1, 0.2, 0.5)])
    encoding, space = domain("2222"), AnswerSpace([2] * 4)
    T = space.onehot(codes)
    V = Guidance.from_counts(SurveyCounts.of(T, first), SurveyRules(floor=0.0, k=2)).V

    def knowledge(floor):
        bits = perturb_bits(T[:400], V, np.random.default_rng(5).random((400, 8)), floor).astype(float)
        sample = T[400:].astype(float)
        return Knowledge(
            bits,
            encoding,
            columnwise=False,
            noise=told(*[Bit(floor, "square")] * 8),
            sample=sample,
            column_distributions=tuple(np.sort(sample, axis=0).T),
            candidates=np.vstack([T[:100], T[400:500]]).astype(float),
            guided=Guided(V),
        )

    return knowledge, Truth(T[:400].astype(float), encoding, rows=T[:400].astype(float))


def test_posterior_guess_is_the_bayes_guess_and_a_floor_weakens_it(known):
    knowledge, truth = known
    scores = {floor: score_guess(PosteriorGuess().run(knowledge(floor)), truth) for floor in (0.0, 0.25, 0.4)}
    assert scores[0.0].score > scores[0.25].score > scores[0.4].score > scores[0.4].baseline - 0.05
    guess = PosteriorGuess().run(knowledge(0.25))
    assert np.all(guess.X.reshape(400, 4, 2).sum(axis=2) == 1)
    # calibrated: it is right as often as it says
    assert scores[0.25].score == pytest.approx(guess.details["mean_sureness"], abs=0.04)
    shuffled = knowledge(0.25)
    wrong = PosteriorGuess().run(Knowledge(**{**vars(shuffled), "guided": Guided(shuffled.guided.V[::-1].copy())}))
    assert score_guess(wrong, truth).score < scores[0.25].score - 0.03, "with another guidance it is worse"


def test_other_attacks_use_the_exact_law_of_the_bits_too(known):
    knowledge, _ = known
    for attack in (PosteriorBreach(), Membership()):
        assert not isinstance(attack.run(knowledge(0.1)), Abstain)
    before, after = (PosteriorBreach().run(knowledge(floor)) for floor in (0.01, 0.4))
    assert np.abs(before.posterior - before.prior).mean() > 2 * np.abs(after.posterior - after.prior).mean()


def test_without_guidance_there_is_nothing_to_guess_from(known):
    plain = Knowledge(**{**vars(known[0](0.1)), "guided": None})
    assert isinstance(PosteriorGuess().run(plain), Abstain)
