"""A release of many columns: checking it takes time in proportion to them, not to their square."""

import sys
from collections import Counter

import consortium
import numpy as np
import pyarrow as pa

from sfumato.release.sanitize import Options, sanitize
from sfumato.study.server.validation.checker_pool import Limits
from sfumato.study.server.validation.file_checks import check_release
from sfumato.table import Schema


def calls_to_check(folder, columns):
    """Calls of Python functions of ours, which a slow machine does not change."""
    numbers = [{"name": f"x{j}", "kind": "numeric", "low": 0, "high": 1, **consortium.PUBLIC} for j in range(columns)]
    schema = {"version": 1, "columns": [*numbers, consortium.COLUMNS[-1]]}
    rng = np.random.default_rng(0)
    people = pa.table({**{f"x{j}": rng.random(40) for j in range(columns)}, "ill": rng.choice(["no", "yes"], 40)})
    options = Options(mechanism="additive-noise", parameters={"scale": 1.0}, schema=Schema.from_dict(schema))
    sanitize(people, folder, options)
    study = consortium.study(schema=schema, guarantee="empirical-allowed").to_dict()
    counted: Counter[str] = Counter()

    def count(frame, event, _):
        if event == "call" and "sfumato" in frame.f_code.co_filename:
            counted["calls"] += 1

    sys.setprofile(count)
    try:
        assert check_release(folder / "release.parquet", study, Limits()).objections == []
    finally:
        sys.setprofile(None)
    return counted["calls"]


def test_ten_times_the_columns_take_ten_times_the_work(tmp_path):
    few, many = calls_to_check(tmp_path / "few", 30), calls_to_check(tmp_path / "many", 300)
    assert many < 15 * few
