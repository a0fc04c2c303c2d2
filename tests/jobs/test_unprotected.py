"""A release that protects nobody is made only for somebody who asked for it, and says so before anything else."""

import warnings

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.core.errors import UsageError
from sfumato.guarantee import Guarantee
from sfumato.guarantee.words import card_in_words
from sfumato.release.sanitize_checks import HIGHEST_UNASKED
from sfumato.table import Column, Schema

WIDE = pd.DataFrame(np.random.default_rng(0).uniform(0, 1, (60, 20)), columns=[f"x{j}" for j in range(20)])
KNOWN = {"source": "public", "reason": "shares"}
PUBLIC = Schema([Column(name, "numeric", low=0, high=1, **KNOWN) for name in WIDE])


def release(table=WIDE, **words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sf.sanitize(table, mechanism="additive-noise", **words)


@pytest.mark.parametrize("schema", [None, PUBLIC], ids=["conditional", "proved"])
def test_a_strength_that_nobody_named_is_asked_for(schema, tmp_path):
    ledger = tmp_path / "ledger.json"
    with pytest.raises(UsageError, match=r"^Practically unprotected: .*--unprotected"):
        release(schema=schema, ledger=ledger)
    with pytest.raises(UsageError, match=r"^Practically unprotected: .*--unprotected"):
        release(schema=schema, ledger=ledger, dry_run=True)
    assert sf.show_ledger(ledger).releases == ()
    made = release(schema=schema, ledger=ledger, unprotected=True)
    assert made.card.stated_guarantee().record > HIGHEST_UNASKED
    assert made.card.guarantee["words"].startswith("Practically unprotected")
    assert ("not even that is proved" in made.card.guarantee["words"]) is (schema is None)


@pytest.mark.parametrize(
    "named",
    [
        {"parameters": {"scale": 0.3}},
        {"epsilon_record": 60},
        {"max_posterior": 0.999999999999999},
        {"columns": {name: {"scale": 0.3} for name in WIDE}},
    ],
    ids=lambda named: next(iter(named)),
)
def test_whoever_names_it_is_not_asked(named):
    assert release(schema=PUBLIC, **named).card.stated_guarantee().record > HIGHEST_UNASKED


@pytest.mark.parametrize("named", [{"parameters": {"law": "laplace"}}, {"columns": {"x0": {"scale": 0.3}}}])
def test_other_words_do_not_name_it(named):
    with pytest.raises(UsageError, match="--unprotected"):
        release(schema=PUBLIC, **named)


def test_few_columns_and_methods_without_a_bound_are_not_asked_for():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rotated = sf.sanitize(WIDE, mechanism="random-rotation")
    assert release(WIDE[["x0", "x1"]]).card.stated_guarantee().record < HIGHEST_UNASKED
    assert rotated.card.guarantee["words"].startswith("Nothing is proved")


def test_show_begins_with_it():
    made = release(schema=PUBLIC, unprotected=True)
    assert card_in_words(made.card).startswith("Guarantee: Practically unprotected, formally bounded: epsilon ")


def test_the_words_of_one_release_begin_with_the_worst():
    assert (
        Guarantee(40, 40, 40, in_the_way=("basis",)).in_words().startswith("Practically unprotected: epsilon 40, and")
    )
    assert Guarantee(40, 40, 40).in_words().startswith("Practically unprotected, formally bounded: epsilon 40. ")
    assert Guarantee(1, 1, 1).in_words().startswith("Proved: whatever")
