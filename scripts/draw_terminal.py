"""What a command printed, as a picture: `sfumato demo | python scripts/draw_terminal.py "sfumato demo" > x.svg`."""

from __future__ import annotations

import sys
from html import escape

WIDTH, HEIGHT, MARGIN = 8.43, 18, 16
"""Of a character at 14 pixels, and around the text."""


def drawn(command: str, text: str) -> str:
    lines = [f"$ {command}", *text.splitlines()]
    wide, high = MARGIN * 2 + WIDTH * 80, MARGIN * 2 + HEIGHT * len(lines)
    rows = (
        f'<text x="{MARGIN}" y="{MARGIN + HEIGHT * (i + 0.75):g}" xml:space="preserve">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" role="img" font-size="14" '
            'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" fill="#e8e6e1">',
            '<rect width="100%" height="100%" rx="8" fill="#23262d"/>',
            *rows,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(drawn(sys.argv[1], sys.stdin.read()))
