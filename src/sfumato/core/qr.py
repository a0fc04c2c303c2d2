"""A short text as a QR code [ISO/IEC 18004]: version 5, level L, capitals and digits, always with the first mask.

That is all a fingerprint needs: one block of codewords, one alignment pattern, no version field.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from markupsafe import Markup

from sfumato.core.svg import tag

SIDE, DATA, CHECKS = 37, 108, 26
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:"
FORMAT = 0b111011111000100
"""Level L with mask 0, under its own code."""
QUIET = 4
"""Modules of margin."""


def qr_svg(text: str, label: str) -> Markup:
    """The code as one path; dark on white also on a dark page, since readers expect it."""
    size = SIDE + 2 * QUIET
    dark = (
        f"M{column + QUIET} {row + QUIET}h1v1h-1z"
        for row, line in enumerate(qr_modules(text))
        for column, one in enumerate(line)
        if one
    )
    background = tag("rect", width=size, height=size, fill="#fff")
    drawn = tag("path", d="".join(dark), fill="#000", shape_rendering="crispEdges")
    return tag("svg", background, drawn, viewBox=f"0 0 {size} {size}", role="img", aria_label=label, class_="qr")


def qr_modules(text: str) -> list[list[bool]]:
    """Rows of modules, dark ones true. Text of at most 154 of `LETTERS`; ValueError for another."""
    fixed = _fixed()
    grid = [[fixed.get((row, column), False) for column in range(SIDE)] for row in range(SIDE)]
    data = _data(text)
    bits = [bit for word in (*data, *_checks(data)) for bit in _bits(word, 8)]
    for number, (row, column) in enumerate(_places(fixed)):
        bit = bits[number] if number < len(bits) else False  # seven are left over
        grid[row][column] = bit != ((row + column) % 2 == 0)
    return grid


def _data(text: str) -> list[int]:
    if len(text) > 154:
        raise ValueError("too long")
    bits = [*_bits(0b0010, 4), *_bits(len(text), 9)]
    for at in range(0, len(text) - 1, 2):
        bits += _bits(45 * LETTERS.index(text[at]) + LETTERS.index(text[at + 1]), 11)
    if len(text) % 2:
        bits += _bits(LETTERS.index(text[-1]), 6)
    bits += [False] * min(4, 8 * DATA - len(bits))
    bits += [False] * (-len(bits) % 8)
    found = [sum(bit << (7 - place) for place, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8)]
    return [*found, *((0xEC, 0x11) * DATA)[: DATA - len(found)]]


def _bits(value: int, count: int) -> list[bool]:
    return [bool(value >> place & 1) for place in reversed(range(count))]


def _checks(data: list[int]) -> list[int]:
    """Reed and Solomon's: the remainder by the product of all x - 2^i over the field of 256."""
    divisor = [1]
    root = 1
    for _ in range(CHECKS):
        divisor = [a ^ product(root, b) for a, b in zip([*divisor, 0], [0, *divisor], strict=True)]
        root = product(root, 2)
    rest = [*data, *[0] * CHECKS]
    for at in range(len(data)):
        factor = rest[at]
        for place, one in enumerate(divisor):
            rest[at + place] ^= product(factor, one)
    return rest[-CHECKS:]


def product(one: int, other: int) -> int:
    """In the field of 256, modulo x^8 + x^4 + x^3 + x^2 + 1."""
    found = 0
    while other:
        found ^= one if other & 1 else 0
        one = one << 1 ^ (0x11D if one & 0x80 else 0)
        other >>= 1
    return found


@cache
def _fixed() -> dict[tuple[int, int], bool]:
    """What stands in every code: the three finders, the alignment pattern, the timing lines and the format."""
    found: dict[tuple[int, int], bool] = {}
    for top, left in ((0, 0), (0, SIDE - 7), (SIDE - 7, 0)):
        for row in range(max(0, top - 1), min(SIDE, top + 8)):
            for column in range(max(0, left - 1), min(SIDE, left + 8)):
                found[row, column] = max(abs(row - top - 3), abs(column - left - 3)) in (0, 1, 3)
    for row in range(28, 33):
        for column in range(28, 33):
            found[row, column] = max(abs(row - 30), abs(column - 30)) != 1
    for place in range(8, SIDE - 8):
        found[6, place] = found[place, 6] = place % 2 == 0
    bits = _bits(FORMAT, 15)
    first = [*((8, one) for one in (0, 1, 2, 3, 4, 5, 7, 8)), *((one, 8) for one in (7, 5, 4, 3, 2, 1, 0))]
    second = [*((SIDE - 1 - one, 8) for one in range(7)), *((8, SIDE - 8 + one) for one in range(8))]
    for places in (first, second):
        found.update(zip(places, bits, strict=True))
    found[SIDE - 8, 8] = True
    return found


def _places(fixed: dict[tuple[int, int], bool]) -> Iterator[tuple[int, int]]:
    """In pairs of columns from the right, up and down in turn, around what is fixed."""
    upwards = True
    for right in (*range(SIDE - 1, 6, -2), 5, 3, 1):
        for row in range(SIDE - 1, -1, -1) if upwards else range(SIDE):
            for column in (right, right - 1):
                if (row, column) not in fixed:
                    yield row, column
        upwards = not upwards
