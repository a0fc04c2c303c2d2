"""Cards: every release's card survives JSON, and an edited one is refused."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domains import any_records, domain, seeds, shapes, steady
from sfumato.channels import FLOAT_NOISE, Exact
from sfumato.core.errors import CardError
from sfumato.guarantee import Card
from sfumato.mechanisms import AdditiveNoise, PrincipalLaplace, RandomizedResponse, RandomProjection
from sfumato.release.write_release import Layout, make_card
from sfumato.table import Column, Encoding, Schema

mechanisms = st.one_of(
    st.builds(AdditiveNoise, law=st.sampled_from(["laplace", "normal", "uniform"]), scale=st.floats(0.01, 5)),
    st.builds(AdditiveNoise, law=st.just("student-t"), scale=st.floats(0.01, 5), df=st.floats(0.5, 9)),
    st.builds(AdditiveNoise, law=st.just("uniform"), low=st.floats(-3, -1), high=st.floats(0, 3)),
    st.builds(
        PrincipalLaplace,
        b=st.floats(0.01, 5),
        basis=st.sampled_from(["learned", "identity"]),
        component_bounds=st.sampled_from(["public", "data"]),
        noise=st.sampled_from(["exact", "float"]),
    ),
    st.builds(RandomProjection, components=st.floats(0.1, 1)),
)


def card_of(mechanism, encoding, seed=0, **words):
    X = any_records(encoding, np.random.default_rng(seed), 12)
    fitted = mechanism.fit(X, encoding=encoding)
    return fitted, make_card(Layout(fitted, encoding), fitted.guarantee(), rows=12, **words)


@pytest.fixture
def plain():
    """The card of a release with a label, as plain JSON."""
    label = Column("ill", "categorical", role="label", categories=("no", "yes"))
    encoding = Encoding(Schema((*domain("nm3").schema.columns, label)))
    return json.loads(card_of(PrincipalLaplace(), encoding)[1].to_json())


@given(mechanisms, shapes, seeds)
@steady(120)
def test_a_card_survives_json_and_states_the_noise_that_was_used(mechanism, shape, seed):
    encoding = domain(shape)
    fitted, card = card_of(mechanism, encoding, seed)
    text = card.to_json()
    back = Card.from_dict(json.loads(text))
    assert back.to_json() == text
    assert back.source_encoding().fingerprint() == encoding.fingerprint()
    assert back.stated_guarantee().kind == fitted.guarantee().kind
    assert "Infinity" not in text
    assert "NaN" not in text
    assert back.made_by().channels == fitted.recipe_.channels
    assert back.noise_path == fitted.recipe_.path
    if fitted.columnwise:
        for group, channel in zip(encoding.groups, back.made_by().channels, strict=True):
            assert not group.is_constant or getattr(channel, "inner", channel) == Exact()


def test_randomized_columns_state_what_is_kept():
    _, card = card_of(AdditiveNoise(scale=0.5), domain("m3?e1"))
    told = card.recipe["channels"]
    kept = 1 / (1 + math.exp(-2))
    assert told[0]["keep"] == pytest.approx(kept)
    assert told[1] == {
        "channel": "randomized-response",
        "keep": pytest.approx(math.e**2 / (math.e**2 + 2)),
        "categories": 3,
    }
    assert told[2]["categories"] == 3
    assert told[3] == {"channel": "or-missing", "value": {"channel": "exact", "columns": 1}, "keep": told[0]["keep"]}
    assert told[4]["keep"] == 1
    _, response = card_of(RandomizedResponse(1.5), domain("3?"))
    assert response.recipe["channels"][0]["keep"] == pytest.approx(math.e**1.5 / (math.e**1.5 + 2))


def test_nothing_secret_is_on_a_card():
    """Neither the projection nor its salt, and no field for a seed or a key at all."""
    fitted, card = card_of(RandomProjection(2), domain("nnn"))
    text = card.to_json()
    assert card.transform == {"kind": "secret", "commitment": fitted.key_.commitment(), "orthogonal": False}
    assert fitted.key_.salt.hex() not in text
    for number in fitted.matrix_.ravel():
        assert str(number)[:8] not in text
    assert "seed" not in text.lower()
    assert card.made_by().map.affine() is None


def test_a_fixed_seed_is_marked_and_never_formal(plain):
    _, card = card_of(AdditiveNoise(), domain("n"), reproducible="not for release")
    assert card.reproducible == "not for release"
    assert card.is_formal  # the job adds the reason; a card that says both is refused
    with pytest.raises(CardError, match="do not allow"):
        Card.from_dict(card.to_dict())
    assert plain["reproducible"] is None


def put(data, path, value):
    *way, last = path
    for step in way:
        data = data[step]
    if value is REMOVED:
        del data[last]
    else:
        data[last] = value


REMOVED = "(removed)"
EDITS = [
    (("space",), "sha256:abc"),
    (("space",), REMOVED),
    (("rows",), -1),
    (("rows",), "12"),
    (("label",), "anonymous"),
    (("seed",), 7),
    (("guarantee", "kind"), "perfect"),
    (("guarantee", "kind"), "local-dp"),
    (("guarantee", "epsilon_record"), "small"),
    (("guarantee", "in_the_way"), REMOVED),
    (("guarantee", "in_the_way"), []),
    (("transform", "kind"), "rotation"),
    (("transform", "matrix"), REMOVED),
    (("transform", "matrix"), []),
    (("transform", "matrix", 0, 0), "0.5"),
    (("transform", "matrix", 0, 0), True),
    (("transform", "matrix", 0), []),
    (("transform", "matrix", 0, 0), math.nan),
    (("transform", "offset"), []),
    (("transform", "offset"), REMOVED),
    (("transform", "kind"), "secret"),
    (("release_schema", "columns"), []),
    (("release_schema", "columns", 0, "noise"), {"law": "laplace", "scale": 1}),
    (("recipe", "rows"), "somebody"),
    (("recipe", "channels"), []),
    (("recipe", "channels", 0), {"channel": "exact", "columns": 2}),
    (("recipe", "channels", 0), {"channel": "magic"}),
    (("recipe", "channels", 0, "noise", "scale"), -1),
    (("recipe", "channels", 0, "noise"), {"law": "magic", "scale": 1}),
    (("recipe", "channels", 0, "noise"), {"law": "laplace"}),
    (("recipe", "channels", 0, "noise"), {"law": "laplace", "scale": 1, "loc": 2}),
    (("recipe", "channels", 0, "noise"), []),
    (("recipe", "channels", 0, "grid"), 10**400),
    (("recipe", "channels", 0, "low"), 1e9),
    (("recipe", "channels_by_class"), {"0": [{"channel": "exact"}]}),
    (("recipe", "channels_by_class"), {"first": []}),
    (("release_schema", "label", "keep"), 0),
    (("release_schema", "label", "keep"), 1.2),
    (("noise_path",), "magic"),
    (("mechanism", "name"), REMOVED),
    (("format",), "sfumato-key"),
]


@pytest.mark.parametrize(("path", "value"), EDITS, ids=lambda part: str(part)[:40])
def test_an_edited_card_is_refused(plain, path, value):
    put(plain, path, value)
    with pytest.raises(CardError, match=r"does not follow the card's schema at|was edited"):
        Card.from_dict(plain)


def test_a_matrix_has_a_line_for_every_row_and_is_read_in_any_layout(plain, tmp_path):
    """A card of 3,000 columns holds millions of numbers; cards of earlier versions gave each a line of its own."""
    card = Card.from_dict(plain)
    lines = [line.strip().rstrip(",") for line in card.to_json().splitlines()]
    assert all(json.dumps(row) in lines for row in plain["transform"]["matrix"])
    (tmp_path / "card.json").write_text(json.dumps(plain, indent=1))
    assert Card.load(tmp_path) == card
    (tmp_path / "card.json").write_text(json.dumps(plain, indent=1).replace("12", "NaN", 1))
    with pytest.raises(CardError, match="not valid JSON"):
        Card.load(tmp_path)


@pytest.mark.parametrize(
    "channels",
    [
        [{"channel": "exact"}, {"channel": "exact"}, {"channel": "exact", "columns": 3}],
        [{"channel": "exact"}, {"channel": "randomized-response", "keep": 0.9, "categories": 2}, {"channel": "exact"}],
        [{"channel": "or-missing", "value": {"channel": "exact"}, "keep": 0.9}] * 3,
        [{"channel": "exact", "columns": 5}],
    ],
    ids=len,
)
def test_channels_that_do_not_fit_their_columns_are_refused(channels):
    data = json.loads(card_of(AdditiveNoise(), domain("nm3"))[1].to_json())
    put(data, ("recipe", "channels"), channels)
    with pytest.raises(CardError, match="do not fit its source columns"):
        Card.from_dict(data)


def test_noise_that_depends_on_a_class_proves_nothing():
    """Nobody's mechanism states such a thing and a guarantee; a card that does is not believed."""
    data = json.loads(card_of(AdditiveNoise(), domain("n"))[1].to_json())
    assert math.isfinite(Card.from_dict(data).made_by().epsilons().record)
    put(data, ("recipe", "channels_by_class"), {"0": [{"channel": "exact"}]})
    assert Card.from_dict(data).made_by().epsilons().record == math.inf


def test_the_weakest_path_is_stated():
    assert card_of(AdditiveNoise(noise="float"), domain("n3"))[1].noise_path == FLOAT_NOISE


@pytest.mark.parametrize("version", [1, 3])
def test_another_version_is_told(plain, version):
    plain["version"] = version
    with pytest.raises(CardError, match=f"version {version}, and this program reads version 2"):
        Card.from_dict(plain)


@pytest.mark.parametrize("data", [None, [], "card", 5, {}])
def test_anything_else_is_no_card(data):
    with pytest.raises(CardError):
        Card.from_dict(data)


def test_files_of_cards(plain, tmp_path):
    card = Card.from_dict(plain)
    card.save(tmp_path / "card.json")
    assert Card.load(tmp_path) == Card.load(tmp_path / "card.json") == card
    assert card.classes == ("no", "yes")
    assert card.label_keep == 1
    (tmp_path / "card.json").write_text(card.to_json()[:-20])
    with pytest.raises(CardError, match="not valid JSON"):
        Card.load(tmp_path)
    (tmp_path / "card.json").unlink()
    with pytest.raises(CardError, match="There is no card"):
        Card.load(tmp_path)
