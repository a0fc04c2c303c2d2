"""The code of a fingerprint: as another writer drew it, and read back by the standard's own steps."""

import hashlib

import pytest

from sfumato.core.qr import CHECKS, DATA, LETTERS, SIDE, _fixed, _places, product, qr_modules, qr_svg

TEXT = "-".join(["ABBOT", "ZIPPER"] * 8)


def read(grid):
    """Unmask, walk, check the block, and read letters: what a camera's program does once it has the modules."""
    words, bits = [], []
    for row, column in _places(_fixed()):
        bits.append(grid[row][column] != ((row + column) % 2 == 0))
    words = [sum(bit << (7 - at) for at, bit in enumerate(bits[start : start + 8])) for start in range(0, 8 * 134, 8)]
    root = 1
    for _ in range(CHECKS):  # every root of the divisor is one of the block, so that nothing was misread
        value = 0
        for word in words:
            value = product(value, root) ^ word
        assert value == 0
        root = product(root, 2)
    stream = iter(bit for word in words[:DATA] for bit in f"{word:08b}")

    def number(count):
        return int("".join(next(stream) for _ in range(count)), 2)

    assert number(4) == 2
    left, found = number(9), ""
    while left > 1:
        pair = number(11)
        found += LETTERS[pair // 45] + LETTERS[pair % 45]
        left -= 2
    return found + (LETTERS[number(6)] if left else "")


@pytest.mark.parametrize("text", [TEXT, "A", "A" * 154, TEXT[:-1]])
def test_what_is_written_is_read(text):
    assert read(qr_modules(text)) == text


def test_it_is_drawn_as_another_writer_draws_it():
    """segno 1.6.6: version 5, level L, mask 0."""
    rows = "\n".join("".join("#" if one else "." for one in row) for row in qr_modules(TEXT[:-1]))
    assert len(rows) == SIDE * (SIDE + 1) - 1
    assert (
        hashlib.sha256(rows.encode()).hexdigest() == "4f8e8173ffc654eede195c972ca33d34636af11502d460635aea9b09f764c25d"
    )


def test_what_does_not_fit_is_refused():
    for text in ("A" * 155, "a", "ä"):
        with pytest.raises(ValueError, match=r"too long|not found"):
            qr_modules(text)


def test_the_picture_says_what_it_is():
    assert 'role="img"' in qr_svg(TEXT, "a code")
    assert 'aria-label="a code"' in qr_svg(TEXT, "a code")
