"""Rows that contradict their card: found where noise is missing, and never held against an honest release."""

import copy
import dataclasses
import json
import math

import consortium
import numpy as np
import pyarrow as pa
import pytest
from consortium import rewritten
from scipy.stats import binom

from domains import domain
from sfumato.channels import Additive, Exact, Identity, RandomizedResponse, Recipe, Sampled
from sfumato.guarantee import Card
from sfumato.guarantee.card import recomputed
from sfumato.noise import Laplace
from sfumato.release.check_rows import WRONG, WRONG_GAPS, NoiseEvidence, exceeds
from sfumato.release.sanitize import Options, sanitize
from sfumato.study.server.validation.checker_pool import Limits
from sfumato.study.server.validation.file_checks import check_release
from sfumato.table import Schema


def objections(body, folder, definition):
    path = folder / "pushed"
    path.write_bytes(body)
    return check_release(path, definition, Limits()).objections


def test_evidence_accuses_no_honest_release_and_finds_noise_that_is_not_there(tmp_path):
    for seed in range(5):
        consortium.release(tmp_path, parameters={"scale": 1.0}, rows=500, seed=seed, private_label=True)
        card = Card.load(tmp_path / "release")
        rng = np.random.default_rng(seed)
        honest, forged = NoiseEvidence.of(card), NoiseEvidence.of(card)
        flat = np.full((2000, 5), 0.5)
        noisy = flat + rng.laplace(0, 1.0, flat.shape)
        noisy[:, 3], noisy[:, 4] = 0, 1
        coded = rng.integers(2, size=2000)
        noisy[coded == 1, 3:] = [1, 0]
        honest.add(noisy, rng.integers(2, size=2000))
        assert honest.against() is None
        forged.add(flat + 0.7 * (noisy - flat), rng.integers(2, size=2000))  # 30% less noise
        assert forged.against()
        one_class = NoiseEvidence.of(card)
        one_class.add(noisy, np.zeros(2000, dtype=np.int64))  # a randomized label is never always the same
        assert one_class.against()


@pytest.mark.parametrize(("law", "df"), [("student-t", 1.0), ("student-t", 2.5), ("laplace", None), ("normal", None)])
def test_a_law_without_variance_is_missed_too(tmp_path, law, df):
    """A Cauchy law has no variance to be missing, but it lets few rows lie close together."""
    parameters = {"law": law, "scale": 0.5} | ({"df": df} if df else {})
    consortium.release(tmp_path, parameters=parameters, rows=400)
    card = Card.load(tmp_path / "release")
    for seed in range(20):
        rng = np.random.default_rng(seed)
        people = rng.beta(2, 2, (1000, 1)) * np.ones(5)
        people[:, 3:] = np.eye(2)[rng.integers(2, size=1000)]
        honest, forged = NoiseEvidence.of(card), NoiseEvidence.of(card)
        people[:, 2] = 0  # nobody's weight is missing
        honest.add(card.made_by().perturb(people, rng), None)
        assert honest.against() is None
        forged.add(people, None)
        assert forged.against()


@pytest.mark.parametrize(("epsilon", "rows"), [(2.0, 60), (8.0, 300), (20.0, 3000)])
def test_rows_without_noise_are_found_where_rows_can_tell(tmp_path, epsilon, rows):
    """A few rows that hardly vary beside strong noise, or many whole numbers beside weak noise."""
    consortium.release(tmp_path, rows=rows, parameters={"epsilon_record": epsilon})
    card = Card.load(tmp_path / "release")
    evidence = NoiseEvidence.of(card)
    evidence.add(card.source_encoding().encode(pa.table(consortium.people(rows))).X, None)
    evidence.classes = 0  # the label is not what is looked at
    assert evidence.against()


@pytest.mark.parametrize("most", [1e-4, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [3, 40, 1000])
def test_nobody_is_accused_more_often_than_chance_is_told_to(most, n):
    """Chernoff's bound against the exact binomial law; and it wastes little of what the exact one would find."""
    doubt = math.log(1e12)
    counts = np.arange(n + 1)
    accused = counts[exceeds(counts, n, most, doubt)]
    if len(accused):
        assert binom.sf(accused[0] - 1, n, most) <= 1.001e-12
        assert binom.sf(accused[0] - 2 - 0.1 * n, n, most) > 1e-12
    else:
        assert most**n > 1e-12
    assert not exceeds(counts, n, 1.0, doubt).any()
    assert not exceeds(np.array([0]), 0, most, doubt).any()


def test_a_class_with_a_narrow_kernel_is_no_evidence_of_a_lie(tmp_path):
    """Ten people vary a lot and three thousand hardly: the card states the wider kernel, the rows have the other."""
    rng = np.random.default_rng(3)
    spread = np.concatenate([rng.normal(60, 20, 10), rng.normal(60, 0.05, 3000)])
    columns = [
        {"name": "weight", "kind": "numeric", "low": 0, "high": 120, **consortium.PUBLIC},
        {"name": "sex", "kind": "categorical", "categories": ["f", "m"], **consortium.PUBLIC},
        consortium.COLUMNS[-1],
    ]
    table = {
        "weight": spread.clip(0, 120).tolist(),
        "sex": ["f"] * 3005 + ["m"] * 5,
        "ill": ["yes"] * 10 + ["no"] * 3000,
    }
    schema = Schema.from_dict({"columns": columns})
    sanitize(table, tmp_path / "release", Options(mechanism="kernel-resampling", schema=schema))
    asked = consortium.study(
        schema={"version": 1, "columns": columns},
        mechanism={"name": "kernel-resampling"},
        guarantee="empirical-allowed",
    ).to_dict()
    body = (tmp_path / "release" / "release.parquet").read_bytes()
    assert objections(body, tmp_path, asked) == []

    def still(table):
        return table.set_column(0, "weight", pa.array(np.full(table.num_rows, 60.0)))

    assert objections(rewritten(body, tmp_path, still), tmp_path, asked) == [WRONG]


def test_noise_by_class_excuses_rows_and_costs_the_guarantee(tmp_path):
    """Who adds narrower noise of a class to a card that proves something is believed in that, and in nothing else."""
    body = consortium.release(tmp_path, parameters={"epsilon_record": 8.0}, rows=400)
    card = Card.load(tmp_path / "release").to_dict()
    quiet = copy.deepcopy(card["recipe"]["channels"])
    for channel in quiet:
        inside = channel.get("value", channel)
        if "noise" in inside:
            inside["noise"]["scale"] *= 2.0**-30
            inside["grid"] *= 2.0**-30
    card["recipe"]["channels_by_class"] = {"0": quiet}
    assert recomputed(Card.from_dict(card)).proved == math.inf
    edited = rewritten(body, tmp_path, card=lambda _: json.dumps(card).encode())
    found = objections(edited, tmp_path, consortium.study().to_dict())
    assert "states less" in found[0]
    assert any("asks for a formal guarantee" in reason for reason in found)


def test_what_is_not_reported_is_no_evidence_and_hides_none():
    """A sampled column: half of the cells are NaN, and rows without noise are found among the others."""
    rng = np.random.default_rng(0)
    encoding = domain("n3")
    channels = Sampled(Additive(Laplace(0.5)), 0.5), Sampled(RandomizedResponse(0.4, 3), 0.5)
    recipe = Recipe(encoding, Identity(4), channels)
    people = np.zeros((4000, 4))
    people[:, 0], people[:, 1] = rng.beta(2, 2, 4000), 1
    quiet = dataclasses.replace(recipe, channels=(Sampled(Exact(), 0.5), Sampled(Exact(3), 0.5)))
    fewer = dataclasses.replace(recipe, channels=tuple(Sampled(channel.inner, 0.35) for channel in channels))
    for made, wrong in ((recipe, None), (quiet, WRONG), (fewer, WRONG_GAPS)):
        evidence = NoiseEvidence(recipe, 4000)
        evidence.add(made.perturb(people, rng), None)
        assert evidence.against() == wrong
