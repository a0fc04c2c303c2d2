"""Edited model files, each read and asked in this process: run as a program, because a reader that crashes ends it.

python tests/jobs/tampering.py MODEL TABLE EDITS SEED    prints one line per edit: "answered", or the error's type
"""

import io
import json
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from sfumato.core.errors import SfumatoError
from sfumato.learn.model import evaluate

WHOLE = (-1, 0, 1, 3, 7, 100_000, 2**31 - 1, -(2**31))
REAL = (np.nan, np.inf, -np.inf, 1e308, -1.0, 0.5, 1e6)


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, parts, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def array_of(content):
    return np.load(io.BytesIO(content), allow_pickle=False)


def bytes_of(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def nodes_of(part):
    """Every object of a schema."""
    if isinstance(part, dict):
        if "__loader__" in part:
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from nodes_of(inner)


def edited_cell(array, rng):
    """A number of the array, replaced by one that does not belong there."""
    array = array.copy()
    field = array[rng.choice(array.dtype.names)] if array.dtype.names else array
    if field.size:
        values = WHOLE if field.dtype.kind in "iub" else REAL
        value = np.array(values[rng.integers(len(values))])
        field.reshape(-1)[rng.integers(field.size)] = value.astype(field.dtype)
    return array


def edited_shape(array, rng):
    """Cut short, doubled, flattened, or of another type."""
    ways = (lambda a: a[: len(a) // 2], lambda a: np.concatenate([a, a]), np.ravel, lambda a: a[None])
    if array.ndim == 0:
        return array[None]
    if not array.dtype.names and rng.random() < 0.3:
        return array.astype(np.int64 if array.dtype.kind == "f" else np.float64)
    return ways[rng.integers(len(ways))](array)


def edited_schema(content, rng):
    """A number or text of the description replaced, or an attribute moved to another one's place."""
    schema = json.loads(content)
    nodes = list(nodes_of(schema["content"]["classifier"]))
    plain = [node for node in nodes if node["__loader__"] == "JsonNode"]
    named = [node for node in nodes if node["__loader__"] == "DictNode" and len(node["content"]) > 1]
    if rng.random() < 0.6:
        chosen = plain[rng.integers(len(plain))]
        chosen["content"] = rng.choice(["-1", "0", "1000000000", "null", "true", '"kd_tree"', "[]", "1.5", "2"])
        chosen["__id__"] = int(rng.integers(1 << 40))
    else:
        chosen = named[rng.integers(len(named))]["content"]
        one, other = rng.choice(list(chosen), 2, replace=False)
        chosen[one], chosen[other] = chosen[other], chosen[one]
    return json.dumps(schema).encode()


def edited(parts, rng):
    parts = dict(parts)
    if rng.random() < 0.3:
        parts["schema.json"] = edited_schema(parts["schema.json"], rng)
        return parts
    name = rng.choice([name for name in parts if name.endswith(".npy")])
    edit = edited_cell if rng.random() < 0.7 else edited_shape
    parts[name] = bytes_of(edit(array_of(parts[name]), rng))
    return parts


def outcome(path, table):
    try:
        evaluate(path, table)
    except SfumatoError as error:
        return type(error).__name__ if "\n" not in str(error) else "several lines"
    return "answered"


def main(table, edits, seed, *models):
    warnings.simplefilter("ignore")
    frame = pd.read_csv(table)
    for model in map(Path, models):
        rng, parts, aside = np.random.default_rng(int(seed)), members(model), model.with_suffix(".edited")
        for number in range(int(edits)):
            print(f"{model.stem} {number}", end=" ", flush=True)  # should this be the last line, it is the culprit
            write(aside, edited(parts, rng))
            print(outcome(aside, frame), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
