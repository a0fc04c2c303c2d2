"""Who decides how strong the noise is: the study first, then the owner, then the defaults."""

import pytest

from sfumato.core.errors import UsageError
from sfumato.guarantee import epsilon_for_posterior
from sfumato.release.asked import Presence, Terms
from sfumato.release.strength import MECHANISM, Wanted
from sfumato.table import Column, Schema

SCHEMA = Schema((Column("age", "integer", low=0, high=120, source="public", reason="human ages"),))


def terms(parameters=None, epsilon=4.0):
    return Terms("Four hospitals", "sha256:0", SCHEMA, "additive-noise", parameters or {}, epsilon)


def wanted(mechanism=None, parameters=None, **words):
    return Wanted(mechanism=mechanism, parameters=parameters or {}, **words)


def test_without_any_word_the_default_is_used_as_it_is():
    found = wanted().under(None, None)
    assert (found.mechanism, dict(found.parameters), found.chosen_by) == (MECHANISM, {}, "parameters")


def test_a_wanted_epsilon_becomes_the_mechanisms_parameter_less_the_labels_share():
    given = {"law": "laplace"}
    found = wanted("additive-noise", given, epsilon_record=4.0, private_label=True, label_epsilon=1.5).under(None, None)
    assert dict(found.parameters) == {"law": "laplace", "epsilon_record": 2.5}
    assert (found.label_epsilon, found.chosen_by) == (1.5, "epsilon 4")
    assert given == {"law": "laplace"}, "what was given is not changed"


def test_how_sure_somebody_may_become_is_an_epsilon_too():
    found = wanted("additive-noise", max_posterior=0.2).under(None, None)
    assert found.parameters["epsilon_record"] == epsilon_for_posterior(0.1, 0.2)
    assert found.chosen_by == "max-posterior 0.2 at prior 0.1"


@pytest.mark.parametrize(
    ("parameters", "words", "epsilon"),
    [
        ({}, {}, 4.0),
        ({}, {"epsilon_record": 2.0}, 2.0),
        ({}, {"private_label": True}, 3.0),
        ({"scale": 0.3}, {}, None),
    ],
    ids=["the study's", "a stronger one of the site's", "shared with the label", "settled by the study's parameters"],
)
def test_the_studys_guarantee_is_the_strength_unless_something_else_settles_it(parameters, words, epsilon):
    found = wanted(**words).under(terms(parameters), None)
    assert found.mechanism == "additive-noise"
    assert found.parameters.get("epsilon_record") == epsilon
    assert parameters.items() <= found.parameters.items()


def test_a_sites_own_parameter_settles_the_strength_too():
    assert dict(wanted(parameters={"scale": 0.5}).under(terms(), None).parameters) == {"scale": 0.5}


@pytest.mark.parametrize(
    ("asked", "schema", "said"),
    [
        (wanted("additive-noise"), SCHEMA, "already has a schema"),
        (wanted("random-rotation"), None, "The study asks for additive-noise"),
        (wanted(MECHANISM), None, "The study asks for additive-noise"),
        (wanted(parameters={"law": "normal"}), None, "fixes the parameter law"),
    ],
    ids=["schema", "mechanism", "the default, said aloud", "parameter"],
)
def test_what_a_study_fixes_is_fixed(asked, schema, said):
    with pytest.raises(UsageError, match=said):
        asked.under(terms({"law": "laplace"}), schema)


def test_an_epsilon_for_the_label_of_zero_is_not_taken_for_one():
    """The command line took `--label-epsilon 0` for 1."""
    assert wanted(private_label=True, label_epsilon=0.0).under(None, None).label_epsilon == 0.0


@pytest.mark.parametrize(("epsilon", "delta"), [(1.1, None), (None, 1e-5), (1.0, 2e-6), (1.1, 0.0)])
def test_presence_that_the_study_would_not_take_is_refused_before_it_is_charged(epsilon, delta):
    asked = Terms("s", "sha256:0", SCHEMA, "tree-resampling", {}, None, Presence(1.0, 1e-6))
    assert wanted().under(asked, None).parameters == {"epsilon": 1.0, "delta": 1e-6}
    stronger = wanted(epsilon_presence=0.5, delta=1e-5).under(
        asked, None
    )  # comes to less than 1 at the study's delta too
    assert stronger.parameters == {"epsilon": 0.5, "delta": 1e-5}
    with pytest.raises(UsageError, match="at most 1 at delta 1e-06"):
        wanted(epsilon_presence=epsilon, delta=delta).under(asked, None)
