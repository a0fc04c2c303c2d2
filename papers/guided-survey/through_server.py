"""Fig. 4 through the server: the same respondents, each with an own program that speaks HTTP to a running server.

`python papers/guided-survey/through_server.py`. A server decides its level by mu, so that nine values of mu take the
place of nine levels. What was received is exported as the owner would do it, and trained on. The same survey is
simulated in process beside it. The figures go to `work/through_server.json`, from where `run.py` takes them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

import numpy as np  # noqa: E402
import uvicorn  # noqa: E402
from votes import SPACE, START, TRAIN, people  # noqa: E402

from sfumato.auditing.figures.guided_survey import SCHEMES, start_up  # noqa: E402
from sfumato.channels.guidance.disclosure import disclosure, simulate  # noqa: E402
from sfumato.channels.guidance.guidance import SurveyCounts, SurveyRules  # noqa: E402
from sfumato.learn.classifiers.survey_bits import SurveyClassifier  # noqa: E402
from sfumato.release.release import Release  # noqa: E402
from sfumato.study.asked import RespondAsked  # noqa: E402
from sfumato.study.client.respondent import prepare, send  # noqa: E402
from sfumato.study.client.survey_server import SurveyServer  # noqa: E402
from sfumato.study.protocol.survey_file import SurveyStudy  # noqa: E402
from sfumato.study.protocol.survey_guidance import guidance_for  # noqa: E402
from sfumato.study.server.app import create_app  # noqa: E402
from sfumato.study.server.settings import Rate, Settings  # noqa: E402
from sfumato.study.server.survey.received import write_parts  # noqa: E402

MUS = (0.6, 0.4, 0.25, 0.15, 0.1, 0.07, 0.05, 0.035, 0.025)
BATCH = 50
DRAWS = 20


def survey(mu: float, codes: np.ndarray, y: np.ndarray) -> SurveyStudy:
    """Sixteen votes, the party, and sixteen real start-up rows."""
    rows = [[int(c) for c in row] + [int(label)] for row, label in zip(codes[:START], y[:START], strict=True)]
    return SurveyStudy.from_dict(
        {
            "name": "Votes",
            "by": "papers/guided-survey",
            "questions": [{"name": f"vote {n}", "choices": ["n", "y"]} for n in range(16)],
            "label": {"name": "party", "choices": ["democrat", "republican"]},
            "mu": mu,
            "batch": BATCH,
            "start_up": rows,
        }
    )


@contextmanager
def running(app: Any) -> Iterator[str]:
    """The server on a free port of this machine."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


def asked(mu: float, seed: int = 0) -> dict[str, Any]:
    """One survey: everybody answers through the server, and the same people in process."""
    codes, y = people(seed)
    study = survey(mu, codes, y)
    T = SPACE.onehot(codes)
    with tempfile.TemporaryDirectory() as folder:
        fast = Rate(1e6, 1e6)  # one machine plays all respondents
        settings = Settings(data=Path(folder) / "data", worker=False, respondent_rate=fast, stranger_rate=fast)
        app = create_app(settings)
        identity, _ = app.state.store.studies.create(study)
        with running(app) as address:
            server = SurveyServer(f"{address}/api/v1/surveys/{identity}", insecure_http=True)
            levels = []
            for row, label in zip(codes[START:TRAIN], y[START:TRAIN], strict=True):
                answers = {f"vote {n}": "ny"[choice] for n, choice in enumerate(row)}
                ready = prepare(server, {**answers, "party": study.classes[label]}, RespondAsked(max_level=SPACE.width))
                send(server, ready)
                levels.append(ready.k)
            store = app.state.store.surveys
            parts = [Release.open(part) for part in write_parts(store, identity, study, Path(folder))]
    bits, labels = np.vstack([part.Z for part in parts]), np.concatenate([part.y for part in parts])
    V = guidance_for(study, SurveyCounts.of(bits, labels)).V
    rules = SurveyRules(**{**vars(SCHEMES["default"].rules), "mu": mu, "batch": BATCH})
    first = start_up(T, y, START)
    runs = [simulate(codes[START:TRAIN], y[START:TRAIN], SPACE, rules, startup=first, seed=n) for n in range(DRAWS)]
    hits = [_accuracy(run.bits, run.y, run.versions[-1].guidance.V, T, y) for run in runs]
    return {
        "mu": mu,
        "k": float(np.mean(levels)),
        "respondents": len(bits),
        "accuracy": _accuracy(bits, labels, V, T, y),
        "disclosure": disclosure(codes, SPACE, V, study.floor, draws=500).by_question,
        "in_process": float(np.mean(hits)),
        "in_process_sd": float(np.std(hits)),
        "k_in_process": float(np.mean([run.levels[run.version].mean() for run in runs])),
    }


def _accuracy(bits: np.ndarray, labels: np.ndarray, V: np.ndarray, T: np.ndarray, y: np.ndarray) -> float:
    model = SurveyClassifier("naive-bayes", V)
    model.fit(np.vstack([T[:START], bits]), np.concatenate([y[:START], labels]))
    return float(model.score(T[TRAIN:], y[TRAIN:]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mu", type=float, nargs="*", default=list(MUS))
    options = parser.parse_args()
    found = []
    for mu in options.mu:
        found.append(asked(mu))
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    path = HERE / "work" / "through_server.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"levels": found}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
