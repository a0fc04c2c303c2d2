import numpy as np
import pytest

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import (
    ITEMS,
    Abstain,
    Attack,
    Knowledge,
    Property,
    Transform,
    UndeclaredKnowledgeError,
    Values,
)
from sfumato.attacks.metrics.scored import Truth


class Curious(Attack):
    """Reaches for the transform without saying so."""

    name = "curious"
    knows = frozenset({"release"})

    def guess(self, known):
        return Values(known.release @ known.transform.matrix)


def test_an_attack_cannot_use_what_it_did_not_declare(unit):
    whole = Knowledge(np.eye(3), unit(3), transform=Transform.identity(3))
    with pytest.raises(UndeclaredKnowledgeError, match="transform"):
        Curious().run(whole)
    assert not hasattr(whole.limited({"release"}), "sample")


def test_a_view_hands_out_what_was_declared_and_the_public_description(unit):
    view = Knowledge(np.eye(3), unit(3), columnwise=False).limited({"release"})
    assert np.array_equal(view.release, np.eye(3))
    assert view.encoding.width == 3
    assert view.columnwise is False


def test_what_was_not_declared_is_nowhere_in_a_view_and_the_truth_never_is(unit):
    truth = Truth(np.eye(3), unit(3), rows=np.eye(3)[::-1], targets=np.ones((2, 3)), members=np.array([True]))
    view = truth.limited({"release"})
    assert not any(hasattr(view, name) for name in ("rows", "members", "lineup", "control_targets", "targets"))
    assert set(vars(view)["_held"]) == {"release", "encoding", "columnwise", "label_keep", "tolerance"}
    with pytest.raises(UndeclaredKnowledgeError, match="rows"):
        truth.limited({"rows"})
    within = view.limited({"release"}, {"targets"})  # an attack that runs another one hands on no more than it has
    assert np.array_equal(within.release, np.eye(3))
    with pytest.raises(UndeclaredKnowledgeError, match="targets"):
        within.targets  # noqa: B018


def test_a_misspelt_item_is_an_error(unit):
    with pytest.raises(UndeclaredKnowledgeError, match="relase"):
        Knowledge(np.eye(2), unit(2)).limited({"relase"})


def test_missing_knowledge_makes_an_attack_abstain_and_say_what_it_needs(unit):
    guess = ATTACKS["known-transform"]().run(Knowledge(np.eye(2), unit(2)))
    assert isinstance(guess, Abstain)
    assert "transform" in guess.reason


def test_hiding_blanks_the_secret_in_the_targets_and_nowhere_else(unit):
    whole = Knowledge(np.eye(3), unit(3), targets=np.ones((2, 3)))
    hidden = whole.hiding(1)
    assert hidden.secret == 1
    assert np.isnan(hidden.targets[:, 1]).all()
    assert not np.isnan(hidden.targets[:, [0, 2]]).any()
    assert not np.isnan(whole.targets).any()


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=lambda attack: attack.name)
def test_every_attack_declares_itself(attack):
    assert attack.name == attack.name.lower()
    assert attack.knows <= ITEMS
    assert attack.helps <= ITEMS
    assert not attack.knows & attack.helps
    assert "dversary" in attack.__doc__.split("\n\n")[0], "the docstring begins with the adversary's story"
    made = attack()
    assert repr(made).startswith(attack.__name__)
    assert attack(**made.get_params()).get_params() == made.get_params()


def test_a_property_is_a_half_open_interval():
    inside = Property("x", group=0, slot=0, low=0.2, high=0.4)
    assert inside.covers(np.array([0.2, 0.3, 0.4, 0.5])).tolist() == [False, True, True, False]
