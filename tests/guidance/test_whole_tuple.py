"""Whole-tuple response, Eq. 2: one coin for all questions, and what it leaves in doubt."""

import numpy as np
import pytest

from sfumato.channels.guidance.disclosure import joint_entropy, whole_tuple_disclosure, whole_tuple_response
from sfumato.channels.guidance.space import AnswerSpace
from sfumato.core.errors import UsageError

SPACE = AnswerSpace([2] * 4)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(4)
    return (rng.random((400, 4)) < [0.2, 0.5, 0.6, 0.9]).astype(int)


def test_a_share_theta_is_sent_as_it_is(people):
    t = np.tile(SPACE.onehot(people), (10, 1))
    sent = whole_tuple_response(t, np.random.default_rng(0).random(len(t)), 0.7)
    same = (sent == t).all(axis=1)
    assert ((sent == t).any(axis=1) == same).all(), "all bits are turned over or none"
    spread = (0.7 * 0.3 / len(t)) ** 0.5
    assert abs(same.mean() - 0.7) < 5 * spread < 0.3 * 0.7


@pytest.mark.parametrize("theta", [0.5, 0.7, 1.0])
def test_disclosure_is_mutual_information(people, theta):
    """A second way: H(R) - H(R | t), from the law of the sent rows."""
    t = SPACE.onehot(people)
    law = {}
    for row in t:
        for sent, chance in ((row, theta), (1 - row, 1 - theta)):
            law[bytes(sent)] = law.get(bytes(sent), 0.0) + chance / len(t)
    p = np.array([share for share in law.values() if share > 0])
    coin = 0.0 if theta == 1 else -theta * np.log2(theta) - (1 - theta) * np.log2(1 - theta)
    found = whole_tuple_disclosure(people, SPACE, theta)
    assert found.bits == pytest.approx(-(p * np.log2(p)).sum() - coin)
    assert found.bits >= joint_entropy(people) - 1, "one bit of doubt, however many questions"


def test_three_choices_leave_no_doubt_at_all():
    """The complement of one choice of three is no answer, so that everybody sees which rows were turned over."""
    codes = np.random.default_rng(1).integers(0, 3, (200, 3))
    assert whole_tuple_disclosure(codes, AnswerSpace((3, 3, 3)), 0.5).of_whole_answers == pytest.approx(1.0)


def test_mistakes_are_named(people):
    with pytest.raises(UsageError, match="theta"):
        whole_tuple_disclosure(people, SPACE, 0.3)
    with pytest.raises(UsageError, match="one uniform number"):
        whole_tuple_response(SPACE.onehot(people), [0.1])
