"""What single columns choose: laws, operators, shares of the epsilon, kernels; and what is refused."""

import math

import numpy as np
import pytest
from typer.testing import CliRunner

from domains import PUBLIC, any_records, domain
from sfumato.api.cli.console import parse_column_parameters
from sfumato.channels.affine_bound import affine_epsilons
from sfumato.core.errors import SchemaError, UsageError
from sfumato.guarantee import LOCAL_DP, Card
from sfumato.guarantee.card import recomputed
from sfumato.mechanisms import (
    AdditiveNoise,
    KernelResampling,
    MultiplicativeNoise,
    NoisyOperator,
    PrincipalLaplace,
    RandomizedResponse,
    RandomRotation,
)
from sfumato.mechanisms.columnwise import epsilon_shares
from sfumato.noise import Streams
from sfumato.release.sanitize import Options, sanitize_in_memory
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.protocol.study_file import objections
from sfumato.table import Column, Encoding, Schema


def numbers(*noises, low=0, high=1, **more):
    """One number for each entry, with that `noise`, and a label."""
    columns = [
        Column(f"x{j}", "numeric", low=low, high=high, noise=noise, **PUBLIC, **more) for j, noise in enumerate(noises)
    ]
    return Schema((*columns, Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC)))


def fit(mechanism, schema, rows=50):
    encoding = Encoding(schema)
    X = any_records(encoding, np.random.default_rng(0), rows)
    return mechanism.fit(X, np.arange(rows) % 2, encoding=encoding)


def column_epsilons(fitted):
    return [channel.epsilons(groups).record for channel, groups in fitted.recipe_.of_columns()]


# Shares of the epsilon


def test_the_epsilon_of_a_column_follows_its_weight():
    """A column of weight 4 gets a quarter of the epsilon of one of weight 1; together they spend what was asked for."""
    schema = Schema(
        (
            Column("income", "numeric", low=0, high=9, weight=4, **PUBLIC),
            Column("age", "integer", low=0, high=120, **PUBLIC),
            Column("town", "categorical", categories=("a", "b", "c"), weight=2, **PUBLIC),
        )
    )
    fitted = AdditiveNoise(epsilon_record=7.0).fit(np.full((5, 5), 0.5), encoding=Encoding(schema))
    assert column_epsilons(fitted) == pytest.approx([1.0, 4.0, 2.0], rel=1e-9)
    assert 7.0 * (1 - 1e-9) < fitted.guarantee().record <= 7.0
    assert fitted.guarantee().kind == LOCAL_DP


def test_equal_weights_change_nothing():
    usual, heavy = domain("nm3"), numbers(None, None, weight=5)
    assert epsilon_shares(usual.groups) == (1.0, 1.0, 1.0)
    assert epsilon_shares(Encoding(heavy).groups) == (1.0, 1.0)


def test_shares_in_the_schema_come_before_weights_and_are_one_on_average():
    schema = numbers({"epsilon_share": 3}, None, {"epsilon_share": 2}, weight=1)
    shares = epsilon_shares(Encoding(schema).groups)
    assert shares == pytest.approx((1.5, 0.5, 1.0))
    fitted = fit(AdditiveNoise(scale=0.5), schema)
    assert column_epsilons(fitted) == pytest.approx([3.0, 1.0, 2.0])
    constant = Encoding(Schema((Column("c", "numeric", low=1, high=1, weight=9, **PUBLIC), *schema.private)))
    assert epsilon_shares(constant.groups)[1:] == pytest.approx(shares), "a constant has nothing to share"


def test_randomized_response_shares_by_weight():
    words = {"categories": ("a", "b", "c"), **PUBLIC}
    schema = Schema((Column("q", "categorical", weight=3, **words), Column("r", "categorical", **words)))
    fitted = RandomizedResponse(epsilon_record=4.0).fit(np.eye(6)[:2], encoding=Encoding(schema))
    assert column_epsilons(fitted) == pytest.approx([1.0, 3.0], rel=1e-9)
    assert fitted.guarantee().record <= 4.0


def test_components_get_the_noise_that_their_columns_deserve():
    """With the columns as components the epsilons follow the weights; with a mixing basis the mean weight counts."""
    schema = Schema(
        (Column("a", "numeric", low=0, high=1, weight=3, **PUBLIC), Column("b", "numeric", low=0, high=1, **PUBLIC))
    )
    plain = fit(PrincipalLaplace(basis="identity", epsilon_record=4.0), schema)
    scales = np.array([channel.law.scale for channel in plain.recipe_.channels])
    assert scales[0] == pytest.approx(3 * scales[1])
    assert 3.999 < plain.guarantee().record <= 4.0
    basis = np.array([[0.6, 0.8], [0.8, -0.6]])
    mixed = fit(PrincipalLaplace(basis=basis, basis_reason="drawn", epsilon_record=4.0), schema)
    scales = np.array([channel.law.scale for channel in mixed.recipe_.channels])
    deserved = 1 / np.array(epsilon_shares(Encoding(schema).groups))
    assert scales[0] / scales[1] == pytest.approx((basis[0] @ deserved) / (np.abs(basis[1]) @ deserved))
    by_hand = affine_epsilons(basis, scales, np.full(2, 1.4), Encoding(schema).groups).record
    assert mixed.guarantee().record == pytest.approx(by_hand, rel=1e-9)
    assert mixed.guarantee().kind == LOCAL_DP


# Laws and operators


def test_laws_and_scales_of_single_columns():
    schema = numbers(None, {"law": "normal", "scale": 0.1}, {"scale": 2.0}, {"law": "uniform", "low": -1, "high": 0})
    channels = fit(AdditiveNoise(scale=0.5), schema).recipe_.channels
    assert [channel.law.name for channel in channels] == ["laplace", "normal", "laplace", "uniform"]
    assert [channel.law.scale for channel in channels[:3]] == [0.5, 0.1, 2.0]
    assert channels[3].law.support == (-1, 0)
    assert fit(AdditiveNoise(scale=0.5), schema).guarantee().record == math.inf


def test_a_fixed_column_leaves_the_rest_of_the_epsilon_to_the_others():
    fitted = fit(AdditiveNoise(epsilon_record=5.0), numbers(None, {"scale": 0.5}, None))
    assert column_epsilons(fitted) == pytest.approx([1.5, 2.0, 1.5], rel=1e-9)
    with pytest.raises(UsageError, match="fixed alone exceed"):
        fit(AdditiveNoise(epsilon_record=1.0), numbers(None, {"scale": 0.5}))
    with pytest.raises(UsageError, match="No scale of normal noise"):
        fit(AdditiveNoise(epsilon_record=5.0), numbers(None, {"law": "normal"}))


def test_one_column_with_a_zero_no_longer_blocks_the_others():
    positive = Column("income", "numeric", low=10, high=100, **PUBLIC)
    change = Column("change", "numeric", low=-1000, high=1000, **PUBLIC)
    with pytest.raises(UsageError, match="operator: additive"):
        fit(MultiplicativeNoise(), Schema((positive, change)))
    for mechanism, noise in (
        (MultiplicativeNoise(), {"operator": "additive"}),
        (MultiplicativeNoise(zero="additive"), None),
    ):
        schema = Schema((positive, Column("change", "numeric", low=-1000, high=1000, noise=noise, **PUBLIC)))
        fitted = fit(mechanism, schema)
        carried, added = fitted.recipe_.channels
        assert carried.operator == "multiplicative"
        assert added.adds
        assert added.law.scale == pytest.approx(0.3), "of the range, which is one encoded unit"
        X = np.full((4000, 2), 0.25)
        Z = fitted.perturb(X.copy(), None, Streams.seeded(0).generator(0)).X
        assert (Z[:, 1] - 0.25).std() == pytest.approx(0.3, rel=0.05)
        assert np.abs(fitted.restore(fitted.embed(X)) - X).max() < 1e-12
        assert fitted.embed(X)[0, 1] == 0.25


def test_raw_units_of_every_column_for_operators():
    """An income and a column of +-1000 have noise of their own size."""
    schema = Schema(
        (
            Column("income", "numeric", low=0, high=1e6, noise={"scale": 5e4}, **PUBLIC),
            Column("change", "numeric", low=-1000, high=1000, noise={"law": "laplace", "scale": 50}, **PUBLIC),
        )
    )
    channels = fit(NoisyOperator("additive", "normal", scale=1.0), schema).recipe_.channels
    assert [channel.law.name for channel in channels] == ["normal", "laplace"]
    assert [channel.law.scale for channel in channels] == pytest.approx([0.05, 0.025])
    factor = Column(
        "income", "numeric", low=1, high=9, noise={"operator": "multiplicative", "low": 1, "high": 2}, **PUBLIC
    )
    (carried,) = fit(NoisyOperator("additive"), Schema((factor,))).recipe_.channels
    assert (carried.operator, dict(carried.parameters)) == ("multiplicative", {"base": 0.0})
    assert carried.law.support == (1.0, 2.0)


def test_kernels_and_bandwidths_of_single_columns():
    schema = numbers({"kernel": "gaussian", "bandwidth": 0.2}, {"bandwidth": "published"}, None)
    fitted = fit(KernelResampling("epanechnikov"), schema)
    for code in (0, 1):
        first, second, third = fitted.recipe_.of_class(code)
        assert (first.law.name, first.law.scale) == ("normal", 0.2)
        assert second.law.name == third.law.name == "epanechnikov"
    said = fitted.guarantee().sentence
    assert "within a few h of a real person" in said
    names = [group.column.name for group in fitted.encoding_.groups]
    assert f"(within 3 h in 997 of 1,000 cases), in {names[0]}; " in said
    assert f"at most h, with certainty, in {names[1]} and {names[2]}, where" in said, "for all but one it is certain"
    with pytest.raises(UsageError, match="kernel"):
        fit(KernelResampling(), numbers({"kernel": "square"}))
    with pytest.raises(UsageError, match="bandwidth"):
        fit(KernelResampling(), numbers({"bandwidth": "wide"}))


# On the way in


def test_what_a_mechanism_cannot_do_for_a_column_is_refused():
    for mechanism, noise in (
        (AdditiveNoise(), {"kernel": "gaussian"}),
        (PrincipalLaplace(), {"scale": 0.2}),
        (RandomRotation(), {"epsilon_share": 2}),
        (KernelResampling(), {"law": "normal"}),
    ):
        with pytest.raises(SchemaError, match=f"'x1' asks for its own {next(iter(noise))}"):
            fit(mechanism, numbers(None, noise))


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        ({"scales": 1}, "unknown key"),
        ({"scale": 0}, "above 0"),
        ({"scale": True}, "above 0"),
        ({"law": 3}, "must be text"),
        ({"low": math.inf}, "finite"),
        ("normal", "mapping"),
        ({"law": "cauchy", "scale": 1}, "Column 'x0'"),
        ({"law": "normal", "df": 3}, "Column 'x0'"),
    ],
)
def test_wrong_choices_are_refused(noise, words):
    with pytest.raises(SchemaError, match=words):
        fit(AdditiveNoise(), numbers(noise))


def test_choices_survive_files_and_stand_on_the_card(tmp_path):
    schema = numbers({"law": "laplace", "scale": 0.7}, None)
    schema.save(tmp_path / "schema.yaml")
    again = Schema.load(tmp_path / "schema.yaml")
    assert again == schema
    assert hash(again) == hash(schema)
    assert Encoding(again).fingerprint() == Encoding(numbers(None, None)).fingerprint(), "noise is no part of the space"
    table = {"x0": [0.1, 0.9] * 20, "x1": [0.5, 0.2] * 20, "ill": ["no", "yes"] * 20}
    options = Options(mechanism="additive-noise", schema=again, parameters={"scale": 1.4})
    card = sanitize_in_memory(table, options).card
    assert card.source_schema["columns"][0]["noise"] == {"law": "laplace", "scale": 0.7}
    assert recomputed(card).record == card.guarantee["epsilon_record"] == pytest.approx(1 / 0.7 + 1 / 1.4)


def test_the_door_and_the_command_line_choose_for_columns(tmp_path):
    schema = numbers(None, {"scale": 9.0})
    table = {"x0": [0.1, 0.9] * 20, "x1": [0.5, 0.2] * 20, "ill": ["no", "yes"] * 20}
    chosen = {"x0": {"scale": 0.7}, "x1": {"scale": 2}}
    card = sanitize_in_memory(table, Options(mechanism="additive-noise", schema=schema, columns=chosen)).card
    assert [channel.law.scale for channel in card.made_by().channels] == [0.7, 2.0]
    with pytest.raises(SchemaError, match="its role is label"):
        sanitize_in_memory(table, Options(mechanism="additive-noise", schema=schema, columns={"ill": {"scale": 1}}))
    assert parse_column_parameters(["a.b.scale=2", "a.b.law=normal"]) == {"a.b": {"scale": 2, "law": "normal"}}
    for wrong in ("scale=2", ".scale=2", "a.scale"):
        with pytest.raises(UsageError, match=r"column\.name=value"):
            parse_column_parameters([wrong])

    from sfumato.api.cli.app import app

    schema.save(tmp_path / "s.yaml")
    (tmp_path / "t.csv").write_text("x0,x1,ill\n" + "0.1,0.5,no\n0.9,0.2,yes\n" * 20)
    words = ["sanitize", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "s.yaml"), "--mechanism", "additive-noise"]
    done = CliRunner().invoke(app, [*words, "--column-param", "x0.scale=0.7", "--out", str(tmp_path / "r")])
    assert done.exit_code == 0, done.output
    assert [channel.law.scale for channel in Card.load(tmp_path / "r").made_by().channels] == [0.7, 9.0]


def test_a_study_settles_the_columns_for_all_sites():
    told = {
        "name": "two columns",
        "schema": numbers({"scale": 0.5}, None).to_dict(),
        "mechanism": {"name": "additive-noise"},
        "guarantee": {"epsilon_record": 4.0},
    }
    study = PoolStudy.from_dict(told)
    assert PoolStudy.from_dict({**told, "schema": numbers(None, None).to_dict()}).hash != study.hash
    assert study.schema.columns[0].choices.scale == 0.5
    table = {"x0": [0.1, 0.9] * 20, "x1": [0.5, 0.2] * 20, "ill": ["no", "yes"] * 20}
    for schema, fits in ((study.schema, True), (numbers({"scale": 0.6}, None), False)):
        card = sanitize_in_memory(table, Options(mechanism="additive-noise", schema=schema, epsilon_record=4.0)).card
        assert (not objections(study, card)) is fits
