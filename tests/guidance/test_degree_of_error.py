"""Definition 1 for sets of answers of every size, against listing them all."""

import itertools

import numpy as np
import pytest

from sfumato.channels.guidance.guidance import SurveyCounts, class_difference
from sfumato.channels.guidance.most_disclosure import degree_of_error
from sfumato.channels.guidance.space import AnswerSpace, perturb_bits
from sfumato.core.errors import TableError

SPACE = AnswerSpace((2, 3, 2, 2))


@pytest.fixture(scope="module")
def survey():
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 300)
    codes = np.column_stack([rng.integers(0, size, 300) for size in SPACE.sizes])
    codes[:, 0] = np.where(rng.random(300) < 0.8, y, codes[:, 0])
    T = SPACE.onehot(codes)
    V = np.linalg.qr(rng.normal(size=(SPACE.width, 4)))[0]
    return T, y, perturb_bits(T, V, rng.random(T.shape), 0.1)


def listed(T, y, R, labels, size):
    """Eq. 10 as it stands."""

    def share(rows, of, label, bits):
        return float((rows[:, bits].all(axis=1) & (of == label)).mean())

    largest = 0.0
    for asked in itertools.combinations(SPACE.slices(), size):
        for bits in itertools.product(*(range(part.start, part.stop) for part in asked)):
            plain = share(T, y, 0, bits) - share(T, y, 1, bits)
            received = share(R, labels, 0, bits) - share(R, labels, 1, bits)
            largest = max(largest, abs(plain - received))
    return largest


def test_every_size_agrees_with_listing(survey):
    T, y, R = survey
    found = degree_of_error((T, y), (R, y), SPACE, sizes=4)
    assert found.by_size == pytest.approx([listed(T, y, R, y, size) for size in (1, 2, 3, 4)])
    assert found.value == pytest.approx(max(found.by_size))
    assert found.exact
    assert found.bound == found.value


def test_rows_of_other_people_and_fewer(survey):
    T, y, R = survey
    found = degree_of_error((T, y), (R[:200], y[:200]), SPACE, sizes=2)
    assert found.by_size[1] == pytest.approx(listed(T, y, R[:200], y[:200], 2))
    assert degree_of_error((T, y), (T, y), SPACE).value == 0


def test_pairs_are_what_the_counts_say(survey):
    T, y, R = survey
    found = degree_of_error((T, y), (R, y), SPACE, sizes=2)
    A, A_R = (class_difference(SurveyCounts.of(rows, y), floor=0.0, balance=False) for rows in (T, R))
    apart = np.abs(A - A_R) / len(T)
    for part in SPACE.slices():  # no answer has two choices of one question
        apart[part, part] = np.diag(np.diag(apart)[part])
    assert max(found.by_size) == pytest.approx(apart.max())


def test_larger_sets_can_mislead_more():
    """The paper's proof takes one and two answers for the most difficult cases; here three and four together are."""
    rng = np.random.default_rng(0)
    space, y = AnswerSpace([2] * 4), np.arange(400) % 2
    codes = np.where(y[:, None] == 0, 1, rng.integers(0, 2, (400, 4)))
    T = space.onehot(codes)
    R = (rng.random(T.shape) < 0.5).astype(int)
    found = degree_of_error((T, y), (R, y), space, sizes=4)
    assert min(found.by_size[2:]) > 1.05 * max(found.by_size[:2])


def test_a_search_that_is_cut_short_says_so(survey):
    T, y, R = survey
    whole, short = (
        degree_of_error((T, y), (R, y), SPACE, sizes=0),
        degree_of_error((T, y), (R, y), SPACE, sizes=0, work=0),
    )
    assert not short.exact
    assert short.value <= whole.value <= short.bound


def test_what_is_missing_is_named(survey):
    T, y, R = survey
    with pytest.raises(TableError, match="only one"):
        degree_of_error((T, np.zeros(300, int)), (R, y), SPACE)
    with pytest.raises(TableError, match="its class"):
        degree_of_error((T, y[:5]), (R, y), SPACE)
