"""Keys: private files whose every change is noticed."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domains import steady
from sfumato.core.errors import CardError
from sfumato.guarantee import Key


@pytest.fixture
def key():
    return Key.draw(
        "random-projection", "f" * 64, {"projection": np.arange(6.0).reshape(2, 3) / 7, "centre": np.ones(3)}
    )


@pytest.fixture
def saved(key, tmp_path):
    key.save(tmp_path / "key.json")
    return tmp_path / "key.json"


def test_round_trip_to_the_last_bit(key, saved):
    back = Key.load(saved)
    assert back.commitment() == key.commitment()
    assert all(np.array_equal(back.arrays[name], array) for name, array in key.arrays.items())
    back.check("random-projection", "f" * 64)


def test_only_the_owner_can_read_it(saved):
    assert saved.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_key_that_others_could_read_is_refused(saved, mode):
    saved.chmod(mode)
    with pytest.raises(CardError, match="can be read by others"):
        Key.load(saved)


@given(st.floats(0, 0.999))
@steady(40)
def test_a_key_cut_short_is_refused(tmp_path_factory, share):
    path = tmp_path_factory.mktemp("key") / "key.json"
    Key.draw("random-projection", "f" * 64, {"projection": np.ones((2, 2))}).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(CardError, match="damaged or cut short"):
        Key.load(path)


def edited(path, **changes):
    data = json.loads(path.read_text())
    data.update(changes)
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("changes", [{"mechanism": "random-rotation"}, {"source": "0" * 64}, {"salt": "00" * 32}])
def test_an_edited_key_is_refused(saved, changes):
    with pytest.raises(CardError, match="was changed since it was drawn"):
        Key.load(edited(saved, **changes))


def test_one_flipped_bit_of_the_matrix_is_noticed(saved):
    arrays = json.loads(saved.read_text())["arrays"]
    text = arrays["projection"]["float64"]
    arrays["projection"]["float64"] = ("B" if text[0] != "B" else "C") + text[1:]
    with pytest.raises(CardError, match="was changed"):
        Key.load(edited(saved, arrays=arrays))


def test_the_same_numbers_in_another_shape_are_another_key(saved):
    arrays = json.loads(saved.read_text())["arrays"]
    arrays["projection"]["shape"] = [3, 2]
    with pytest.raises(CardError, match="was changed"):
        Key.load(edited(saved, arrays=arrays))


@pytest.mark.parametrize("changes", [{"format": "sfumato-card"}, {"arrays": None}])
def test_other_files_are_no_keys(saved, changes):
    with pytest.raises(CardError, match="is not a key"):
        Key.load(edited(saved, **changes))


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"format": "sfumato-key", "version": 1}', "\xff"])
def test_anything_else_is_damaged(tmp_path, text):
    path = tmp_path / "key.json"
    path.write_text(text, encoding="latin-1")
    path.chmod(0o600)
    with pytest.raises(CardError, match="damaged"):
        Key.load(path)


def test_a_missing_key_is_told(tmp_path):
    with pytest.raises(CardError, match="no key file"):
        Key.load(tmp_path / "key.json")


def test_another_mechanism_or_source_is_refused(key):
    with pytest.raises(CardError, match="belongs to random-projection, not to random-rotation"):
        key.check("random-rotation", "f" * 64)
    with pytest.raises(CardError, match="other columns, bounds or categories"):
        key.check("random-projection", "e" * 64)


def test_neither_print_nor_message_shows_the_content(key):
    for text in (repr(key), str(key), f"{key}"):
        assert "content hidden" in text
        assert key.salt.hex() not in text
        assert "0.14" not in text


def test_the_commitment_is_salted():
    """Whoever guesses the matrix cannot check the guess: two keys of the same content have two commitments."""
    arrays = {"projection": np.ones((1, 1))}
    first, second = (Key.draw("m", "f", arrays) for _ in range(2))
    assert first.commitment() != second.commitment()
    assert len(first.salt) == 32
    assert first.commitment() == first.commitment()
