"""Writes guided.json: answers, guidance and random bytes with the bits that every client must make of them.

Probabilities are C99 hexadecimal floats and, for JavaScript, big-endian hexadecimal of their eight bytes. `sent` are
the positions of the ones. `epsilon_bound` is the bound that needs no listing of sums. Run it again only when the
definition of the bits changes: `python tests/vectors/write_guided.py`.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import numpy as np

from sfumato.channels.guidance.epsilon import survey_epsilon
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules, encode_matrix, hash_matrix
from sfumato.channels.guidance.space import AnswerSpace, bit_probabilities, perturb_bits, uniforms_from_bytes

SPACES = {
    "two binary questions": AnswerSpace((2, 2)),
    "one choice": AnswerSpace((1, 2)),
    "mixed": AnswerSpace((2, 3, 5)),
    "mixed, blanks": AnswerSpace((2, 3, 5), blank=True),
    "votes": AnswerSpace([2] * 16),
    "quartiles": AnswerSpace([4] * 7 + [5, 9]),
    "many choices": AnswerSpace((40, 2)),
    "too many to list": AnswerSpace([2] * 40, blank=True),
}


def guidance(kind: str, space: AnswerSpace, k: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "unit vectors":
        return np.ascontiguousarray(np.eye(space.width)[:, :k])
    if kind == "random":
        return np.ascontiguousarray(np.linalg.qr(rng.normal(size=(space.width, k)))[0])
    rows = space.onehot(np.column_stack([rng.integers(0, size, 300) for size in space.sizes]))
    label = rows[:, 0] ^ (rng.random(300) < 0.2)
    return Guidance.from_counts(SurveyCounts.of(rows, label.astype(int)), SurveyRules(floor=0.0, k=k)).V


def case(number: int, name: str, space: AnswerSpace, kind: str, k: int, floor: float, link: str) -> dict:
    rng = np.random.default_rng(number)
    V = guidance(kind, space, k, rng)
    least = -1 if space.blank else 0
    answers = [int(rng.integers(least, size)) for size in space.sizes]
    t = space.onehot([answers])[0]
    random = rng.bytes(8 * space.width)
    q = bit_probabilities(t, V, floor, link)
    epsilon = survey_epsilon(V, space, floor, link)
    bound = survey_epsilon(V, space, floor, link, tight=False).record
    return {
        "name": f"{number:02d} {name}, {kind}, k={k}, floor={floor}, {link}",
        "sizes": list(space.sizes),
        "blank": space.blank,
        "k": k,
        "V": encode_matrix(V),
        "sha256": hash_matrix(V),
        "answers": answers,
        "ones": np.flatnonzero(t).tolist(),
        "random": random.hex(),
        "uniforms": [float(u).hex() for u in uniforms_from_bytes(random)],
        "floor": floor,
        "link": link,
        "probabilities": [float(p).hex() for p in q],
        "probability_bytes": [struct.pack(">d", p).hex() for p in q],
        "sent": np.flatnonzero(perturb_bits(t, V, uniforms_from_bytes(random), floor, link)).tolist(),
        "epsilon": epsilon.record if math.isfinite(epsilon.record) else None,
        "epsilon_tight": epsilon.tight,
        "epsilon_bound": bound if math.isfinite(bound) else None,
    }


def main() -> None:
    cases = []
    for name, space in SPACES.items():
        for kind, k, floor, link in (
            ("honest", 1, 0.25, "square"),
            ("honest", min(3, space.width), 0.1, "linear"),
            ("random", 2, 0.0, "square"),
            ("unit vectors", 1, 0.25, "square"),
        ):
            cases.append(case(len(cases), name, space, kind, k, floor, link))
    path = Path(__file__).parent / "guided.json"
    path.write_text(json.dumps({"cases": cases}, indent=1) + "\n", encoding="utf-8")
    print(f"{len(cases)} cases, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
