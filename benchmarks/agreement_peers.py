"""What Anonymeter and SDMetrics say of releases, in the peers' own environment, and SDV's copula of a table.

Run: PEERS_PYTHON benchmarks/agreement_peers.py sample|score FOLDER. Reads original.csv and holdout.csv there.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import pandas as pd

ATTACKS = 300
SEED = 0


def sample(folder: Path) -> None:
    """SDV's Gaussian copula of the original."""
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    original = pd.read_csv(folder / "original.csv")
    made = GaussianCopulaSynthesizer(Metadata.detect_from_dataframes({"people": original}, infer_keys=None))
    made.fit({"people": original})
    drawn = made.sample(len(original))
    drawn = drawn["people"] if isinstance(drawn, dict) else drawn
    drawn.to_csv(folder / "copula.csv", index=False)


def score(folder: Path) -> None:
    """One line of figures for every release.*.csv, larger is riskier."""
    original, holdout = pd.read_csv(folder / "original.csv"), pd.read_csv(folder / "holdout.csv")
    for path in sorted(folder.glob("release.*.csv")):
        started = time.process_time()
        release = pd.read_csv(path)
        found = {**anonymeter(original, release, holdout), **sdmetrics(original, release, holdout)}
        found["seconds"] = time.process_time() - started
        print(json.dumps({"release": path.name.split(".")[1], **found}), flush=True)


def anonymeter(original: pd.DataFrame, release: pd.DataFrame, holdout: pd.DataFrame) -> dict[str, float]:
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    names = list(original.columns)
    found = {}
    for mode in ("univariate", "multivariate"):
        try:
            one = SinglingOutEvaluator(original, release, n_attacks=ATTACKS, control=holdout, seed=SEED)
            one.evaluate(mode=mode)
            found[f"anonymeter singling out, {mode}"] = one.results().attack_rate.value
        except Exception as error:  # it finds no query on some releases
            print(f"{mode}: {type(error).__name__}", file=sys.stderr)
    linked = LinkabilityEvaluator(
        original, release, aux_cols=(names[::2], names[1::2]), n_attacks=ATTACKS, n_neighbors=5, control=holdout
    )
    linked.evaluate()
    found["anonymeter linkability"] = linked.results().attack_rate.value
    rates = []
    for secret in names:
        others = [name for name in names if name != secret]
        numbers = pd.api.types.is_float_dtype(original[secret])
        one = InferenceEvaluator(
            original, release, aux_cols=others, secret=secret, regression=numbers, n_attacks=ATTACKS, control=holdout
        )
        one.evaluate()
        rates.append(one.results().attack_rate.value)
    found["anonymeter inference"] = sum(rates) / len(rates)
    return found


def sdmetrics(original: pd.DataFrame, release: pd.DataFrame, holdout: pd.DataFrame) -> dict[str, float]:
    from sdmetrics.single_table import DCROverfittingProtection, NewRowSynthesis

    kinds = {
        name: {"sdtype": "numerical" if pd.api.types.is_numeric_dtype(original[name]) else "categorical"}
        for name in original.columns
    }
    metadata = {"tables": {"people": {"columns": kinds}}}
    over = DCROverfittingProtection.compute_breakdown(original, release, holdout, metadata, "people")
    return {
        "sdmetrics DCR": float(over["synthetic_data_percentages"]["closer_to_training"]),
        "sdmetrics copied rows": 1.0 - float(NewRowSynthesis.compute(original, release, metadata, "people")),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"sample": sample, "score": score}[sys.argv[1]](Path(sys.argv[2]))
