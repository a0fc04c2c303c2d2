"""The browser's perturbation layer equals the library: bit for bit where bits are drawn, else to rounding."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from survey_double import PAGE

from sfumato.channels.guidance.disclosure import sureness, told_by
from sfumato.channels.guidance.epsilon import survey_epsilon
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, decode_matrix, encode_matrix
from sfumato.channels.guidance.space import AnswerSpace, bit_probabilities, perturb_bits, uniforms_from_bytes
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_guidance import guidance_for

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed; chromium replays the vectors too")


def replay(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    command = [str(NODE), str(VECTORS / "replay.mjs"), str(PAGE)]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_node
def test_node_draws_the_bits_of_the_vectors():
    cases = json.loads((VECTORS / "guided.json").read_text(encoding="utf-8"))["cases"]
    compare_with_vectors(cases, replay(cases))


def compare_with_vectors(cases: list[dict[str, Any]], results: list[dict[str, Any]]) -> None:
    assert len(cases) == len(results) > 20
    for case, result in zip(cases, results, strict=True):
        assert result["ones"] == case["ones"], case["name"]
        assert result["probabilities"] == case["probability_bytes"], case["name"]
        assert result["bits"] == case["sent"], case["name"]
        if case["epsilon"] is None:
            assert result["epsilon"] is None
        else:
            assert result["epsilon"] == pytest.approx(case["epsilon"], rel=1e-12), case["name"]


def survey(number: int, sizes: list[int], classes: int, **settings: Any) -> dict[str, Any]:
    """A survey, received counts, guidance computed by the library from them, and one answer."""
    rng = np.random.default_rng(number)

    def question(name: str, size: int) -> dict[str, Any]:
        return {"name": name, "choices": [f"choice {choice}" for choice in range(size)]}

    asked = [question(f"question {place}", size) for place, size in enumerate(sizes)]
    study = SurveyStudy.from_dict(
        {"name": "One", "by": "Us", "questions": asked, "label": question("label", classes), **settings}
    )
    space = study.space
    codes = np.column_stack([rng.integers(0, size, 500) for size in sizes])
    y = (codes[:, 0] + rng.integers(0, 2, 500)) % classes
    counts = SurveyCounts.of((rng.random((500, space.width)) < 0.2) | space.onehot(codes), y)
    guidance = guidance_for(study, counts)
    return {
        "sizes": sizes,
        "blank": False,
        "k": guidance.k,
        "V": guidance.text,
        "sha256": guidance.sha256,
        "answers": [int(code) for code in codes[0]],
        "random": rng.bytes(8 * space.width).hex(),
        "floor": study.floor,
        "link": study.link,
        "survey": study.to_dict(),
        "hash": study.hash,
        "inputs": json.loads(counts.to_json()),
        "sigmas": guidance.sigmas.tolist(),
    }


SURVEYS = [
    survey(1, [2, 2, 3], 2),
    survey(2, [2, 4, 3, 2], 2, floor=0.0, order="value", start_up=[[1, 3, 0, 1, 0], [0, 2, 2, 0, 1], [1, 0, 0, 1, 1]]),
    survey(3, [5, 3, 2], 3, floor=0.2, link="linear"),
    survey(4, [2] * 16, 4, mu=0.4),
    survey(5, [2, 3, 2], 2, balance=False, k=3, order="value", floor=0.0),
    survey(6, [3, 2, 4], 3, balance=False),
]


@needs_node
def test_bounds_on_the_page_are_rounded_up():
    program = f"""
        import {{ Speaker }} from {json.dumps((PAGE / "words.js").as_uri())};
        const [en, de] = [new Speaker("en"), new Speaker("de")];
        console.log(JSON.stringify([
            [4.0049, 4, 1.1, 0.01].map((value) => en.numberAtMost(value)), de.numberAtMost(4.0049),
            [0.501, 0.5, 0.29, 0.999, 0.0001].map((share) => en.percentAtMost(share)),
        ]));"""
    done = subprocess.run([str(NODE), "--input-type=module", "-e", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [
        ["4.1", "4", "1.1", "0.1"],
        "4,1",
        ["51%", "50%", "29%", "> 99%", "< 1%"],
    ]


@needs_node
def test_what_a_level_reveals_and_guidance_recomputed_from_counts():
    for case, result in zip(SURVEYS, replay(SURVEYS), strict=True):
        space, rule = AnswerSpace(case["sizes"]), (case["floor"], case["link"])
        V = decode_matrix(case["V"], space.width, case["k"])
        t = space.onehot([case["answers"]])[0]
        uniforms = uniforms_from_bytes(bytes.fromhex(case["random"]))
        bits = perturb_bits(t, V, uniforms, *rule)
        assert result["bits"] == np.flatnonzero(bits).tolist()
        assert_allclose(result["most"], sureness(case["answers"], space, V, *rule), rtol=1e-9)
        assert_allclose(result["told"], told_by(bits, case["answers"], space, V, *rule), rtol=1e-9)
        if space.width < 8:
            assert_allclose(result["usual"], on_average(t, case["answers"], space, V, rule), atol=0.02)
        epsilon = survey_epsilon(V, space, *rule).record
        assert result["epsilon"] == (pytest.approx(epsilon, rel=1e-12) if np.isfinite(epsilon) else None)
        largest = np.abs(case["sigmas"]).max()
        assert_allclose(result["sigmas"], case["sigmas"], atol=1e-9 * largest)
        assert_allclose(np.reshape(result["projection"], (space.width, -1)), V @ V.T, atol=1e-7)


def on_average(
    t: np.ndarray, answers: list[int], space: AnswerSpace, V: np.ndarray, rule: tuple[float, str]
) -> np.ndarray:
    """The mean of `told_by` over every row of bits, each as likely as the answer makes it."""
    q = bit_probabilities(t, V, *rule)
    every = (np.arange(1 << space.width)[:, None] >> np.arange(space.width)) & 1
    likely = np.where(every == 1, q, 1 - q).prod(axis=1)
    return likely @ np.array([told_by(bits, answers, space, V, *rule) for bits in every])


@needs_node
def test_counts_that_tell_nothing_leave_no_choice_of_direction():
    alike = [[0, 0, 0, 0], [0, 0, 0, 1]]
    nothing = SurveyStudy.from_dict({**SURVEYS[0]["survey"], "start_up": alike}).to_dict()
    for place, V in enumerate((np.full((7, 1), 7**-0.5), np.eye(7)[:, :1])):
        guidance = Guidance(np.ascontiguousarray(V), np.zeros(7))
        case = {**SURVEYS[0], "survey": nothing, "inputs": {"width": 7, "classes": {}}}
        case |= {"V": encode_matrix(guidance.V), "sha256": guidance.sha256, "k": 1}
        if place:
            with pytest.raises(AssertionError, match="guidance_counts"):
                replay([case])
        else:
            replay([case])


@needs_node
def test_a_matrix_of_other_counts_is_refused():
    """The check of the test above can fail: guidance of the first survey with columns of another."""
    case = dict(SURVEYS[0])
    V = np.linalg.qr(np.random.default_rng(0).normal(size=(7, case["k"])))[0]
    other = Guidance(np.ascontiguousarray(V), np.zeros(7))
    case |= {"V": encode_matrix(other.V), "sha256": other.sha256}
    with pytest.raises(AssertionError, match="guidance_counts"):
        replay([case])


@needs_node
def test_both_languages_have_the_same_words():
    script = (
        f"import {{ LANGUAGES }} from 'file://{PAGE}/words.js';"
        "const marks = (text) => (text.match(/\\{\\w+\\}/g) ?? []).sort().join();"
        "console.log(JSON.stringify(Object.values(LANGUAGES).map((words) =>"
        " Object.entries(words).map(([key, text]) => [key, marks(text)]).sort())));"
    )
    done = subprocess.run([str(NODE), "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    english, *others = json.loads(done.stdout)
    assert len(english) > 50
    assert others == [english]
