"""Cards: every release's card survives JSON, and an edited one is refused."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domains import any_records, domain, seeds, shapes, steady
from sfumato.errors import CardError
from sfumato.guarantee import RANDOMIZED_RESPONSE, Card
from sfumato.jobs.layout import Layout
from sfumato.jobs.make_card import make_card
from sfumato.mechanisms import AdditiveNoise, PrincipalLaplace, RandomizedResponse, RandomProjection
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
    constant = {group.start for group in encoding.groups if group.is_constant} if fitted.columnwise else ()
    for place, (stated, used) in enumerate(zip(back.laws(), fitted.laws(), strict=True)):
        if place in constant or used is None:
            assert stated is None
        else:
            assert stated.name == used.name
            assert stated.scale == pytest.approx(used.scale, rel=1e-12)
            assert stated.variance == pytest.approx(used.variance, rel=1e-9)


def test_randomized_columns_state_what_is_kept():
    _, card = card_of(AdditiveNoise(scale=0.5), domain("m3?e1"))
    noises = [column["noise"] for column in card.release_schema["columns"]]
    kept = 1 / (1 + math.exp(-2))
    assert noises[0]["missing_keep"] == pytest.approx(kept)
    assert noises[1] == {
        "law": RANDOMIZED_RESPONSE,
        "keep": pytest.approx(math.e**2 / (math.e**2 + 2)),
        "categories": 3,
    }
    assert noises[2]["categories"] == 3
    assert noises[3]["missing_keep"] == pytest.approx(kept)
    assert noises[4]["keep"] == 1
    _, response = card_of(RandomizedResponse(1.5), domain("3?"))
    assert response.release_schema["columns"][0]["noise"]["keep"] == pytest.approx(math.e**1.5 / (math.e**1.5 + 2))


def test_nothing_secret_is_on_a_card():
    """Neither the projection nor its salt, and no field for a seed or a key at all."""
    fitted, card = card_of(RandomProjection(2), domain("nnn"))
    text = card.to_json()
    assert card.transform == {"kind": "secret", "commitment": fitted.key_.commitment()}
    assert fitted.key_.salt.hex() not in text
    for number in fitted.matrix_.ravel():
        assert str(number)[:8] not in text
    assert "seed" not in text.lower()
    assert card.affine() is None


def test_a_fixed_seed_is_marked_and_never_formal(plain):
    _, card = card_of(AdditiveNoise(), domain("n"), reproducible=True)
    assert card.reproducible == "not for release"
    assert card.is_formal  # the job adds the reason; a card that says both is refused
    with pytest.raises(CardError, match="does not allow"):
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
    (("release_schema", "columns", 0, "noise"), REMOVED),
    (("release_schema", "columns", 0, "noise"), {"scale": 1}),
    (("release_schema", "label", "keep"), 0),
    (("release_schema", "label", "keep"), 1.2),
    (("noise_path",), "magic"),
    (("mechanism", "name"), REMOVED),
    (("format",), "sfumato-key"),
]


@pytest.mark.parametrize(("path", "value"), EDITS, ids=lambda part: str(part)[:40])
def test_an_edited_card_is_refused(plain, path, value):
    put(plain, path, value)
    with pytest.raises(CardError, match=r"does not follow the card's schema at|was edited or is damaged"):
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


@pytest.mark.parametrize("noise", [{"law": "magic", "scale": 1}, {"law": "laplace", "scale": -1}, {"law": "laplace"}])
def test_a_noise_law_that_does_not_exist_is_refused(plain, noise):
    put(plain, ("release_schema", "columns", 0, "noise"), noise)
    with pytest.raises(CardError, match="noise law"):
        Card.from_dict(plain).laws()


def test_another_version_is_told(plain):
    plain["version"] = 2
    with pytest.raises(CardError, match="version 2, and this program reads version 1"):
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
