"""Models that somebody edited to harm their reader: one line, never a crash, and hardly any memory."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.naive_bayes import BernoulliNB
from sklearn.tree import DecisionTreeClassifier
from tampering import array_of, bytes_of, members, nodes_of, write

from daily import first_daily
from sfumato.core.errors import CardError
from sfumato.learn.classifiers import make_classifier
from sfumato.learn.model import FORMAT, VERSION, Model
from sfumato.learn.model_file import MOST_SCHEMA_BYTES, UnsoundModelError, check_structure
from sfumato.table import Column, Schema

DATA = load_wine(as_frame=True).frame.rename(columns={"target": "cultivar"})
COLUMNS = [name for name in DATA.columns if name != "cultivar"]
CLASSES = ("0", "1", "2")
MADE = {
    "tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": lambda: RandomForestClassifier(n_estimators=3, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=3, random_state=0),
    "bits": BernoulliNB,
}


def unit(frame):
    low, high = DATA[COLUMNS].min().to_numpy(), DATA[COLUMNS].max().to_numpy()
    return ((frame[COLUMNS].to_numpy() - low) / (high - low)).clip(0, 1)


def made(name):
    return MADE[name]() if name in MADE else make_classifier(name)


def model_of(name, path):
    """A model of plain rows, as `train` would write it."""
    columns = [
        Column(c, "numeric", low=float(DATA[c].min()), high=float(DATA[c].max()), source="public", reason="t")
        for c in COLUMNS
    ]
    label = Column("cultivar", "categorical", role="label", categories=CLASSES, source="public", reason="t")
    about = {
        "format": FORMAT,
        "version": VERSION,
        "classifier": name,
        "source_schema": Schema((*columns, label)).to_dict(),
        "transform": {"kind": "identity"},
        "classes": list(CLASSES),
        "label": "cultivar",
        "space": "sha256:" + 64 * "0",
    }
    Model(made(name).fit(unit(DATA), DATA["cultivar"].to_numpy()), about).save(path)
    return path


def run(tmp_path, program):
    """Run a few lines in another process, with at most 2 GB of memory."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n" + program
    return subprocess.run([sys.executable, "-c", limited], cwd=tmp_path, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("learners", "edits"),
    first_daily([(["tree"], 12), ([*MADE, "naive-bayes", "svm", "knn", "radius-vote", "mlp", "noise-aware-qda"], 30)]),
)
def test_edited_models_answer_or_are_refused_in_one_line(tmp_path, learners, edits):
    """Edits of arrays and description, the same for every learner; before, those with C inside ended by SIGSEGV."""
    DATA.iloc[::4].to_csv(tmp_path / "table.csv", index=False)
    models = [str(model_of(name, tmp_path / f"{name}.skops")) for name in learners]
    program = [sys.executable, str(Path(__file__).with_name("tampering.py")), str(tmp_path / "table.csv"), str(edits)]
    done = subprocess.run([*program, "7", *models], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-80:]} {done.stderr[-1500:]}"
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) == edits * len(learners)
    assert {outcome for _, _, outcome in found} == {"answered", "CardError"}
    assert {learner for learner, _, outcome in found if outcome == "CardError"} == set(learners)


def changed_nodes(path, edit):
    """The same model, with `edit` done to the nodes of its first tree."""
    parts = members(path)
    schema = json.loads(parts["schema.json"])
    tree = next(node for node in nodes_of(schema) if node["__loader__"] == "TreeNode")
    name = tree["content"]["content"]["nodes"]["file"]
    nodes = array_of(parts[name]).copy()
    edit(nodes)
    parts[name] = bytes_of(nodes)
    write(path, parts)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("left_child", 10**6, "leads nowhere"),
        ("left_child", 0, "leads nowhere"),
        ("right_child", -5, "leads nowhere"),
        ("feature", 10**6, "column that does not exist"),
    ],
)
def test_a_tree_that_leads_out_of_itself_is_refused_before_it_is_built(tmp_path, field, value, words):
    path = model_of("tree", tmp_path / "m.skops")
    changed_nodes(path, lambda nodes: nodes[field].__setitem__(0, value))
    with pytest.raises(CardError, match=words):
        Model.load(path)


def test_an_archive_that_grows_or_lies_about_its_size_is_refused_unread(tmp_path):
    path = model_of("naive-bayes", tmp_path / "m.skops")
    parts = members(path)
    write(path, parts, zipfile.ZIP_DEFLATED)
    with pytest.raises(CardError, match="compressed"):
        Model.load(path)
    # an array whose header speaks of 8 TB
    name = next(name for name in parts if name.endswith(".npy"))
    lying = bytes_of(np.zeros(1)).replace(b"(1,)", b"(%d,)" % 10**12).replace(b" " * 12 + b"\n", b"\n")
    write(path, parts | {name: lying})
    with pytest.raises(CardError, match="the size it states"):
        Model.load(path)


def test_a_large_member_is_refused_with_little_memory(tmp_path):
    """300 MB of description, packed into a quarter of a megabyte or not: nothing of it is read."""
    path = model_of("naive-bayes", tmp_path / "m.skops")
    parts = members(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            if name != "schema.json":
                archive.writestr(name, content)
        with archive.open("schema.json", "w", force_zip64=True) as member:
            for _ in range(300):
                member.write(b" " * (1 << 20))
    read = (
        "from pathlib import Path; from sfumato.learn.model import Model; from sfumato.core.errors import CardError\n"
        "try: Model.load(Path('m.skops'))\n"
        "except CardError as error: print(error)\n"
        # not ru_maxrss, in which the process that started this one counts
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = run(tmp_path, read)
    message, most = done.stdout.splitlines()
    assert "compressed" in message
    assert int(most) < 400_000
    write(path, {**parts, "schema.json": b" " * (MOST_SCHEMA_BYTES + 1)})
    with pytest.raises(CardError, match="description has more than"):
        Model.load(path)


def test_two_objects_of_one_id_do_not_hide_a_tree(tmp_path):
    """skops builds the first of them and would never look at the second, which the checks saw."""
    path = model_of("tree", tmp_path / "m.skops")
    parts = members(path)
    schema = json.loads(parts["schema.json"])
    tree = next(node for node in nodes_of(schema) if node["__loader__"] == "TreeNode")
    first = next(node for node in nodes_of(schema) if node["__loader__"] == "JsonNode")
    tree["__reduce__"]["args"]["content"][2]["__id__"] = first["__id__"]
    write(path, parts | {"schema.json": json.dumps(schema).encode()})
    with pytest.raises(CardError, match="the same id"):
        Model.load(path)


def test_a_description_that_contradicts_itself_is_refused(tmp_path):
    path = model_of("naive-bayes", tmp_path / "m.skops")
    loaded = Model.load(path)
    Model(loaded.classifier, {**loaded.about, "classes": ["0", "1"]}).save(path)
    with pytest.raises(CardError, match="classes"):
        Model.load(path)
    Model(loaded.classifier, {**loaded.about, "transform": {"kind": "affine", "matrix": [[1.0]], "offset": [0]}}).save(
        path
    )
    with pytest.raises(CardError, match="map of rows"):
        Model.load(path)


@pytest.mark.parametrize("name", ["predict_proba", "asks_noise", "fallback_rate_", "_in_fit"])
def test_an_attribute_that_hides_a_method_or_a_fixed_property_is_refused(name):
    """Parameters are fields of the class, which an object may set; nothing else of its class may stand in a file."""
    model = made("radius-vote").fit(unit(DATA), DATA["cultivar"].to_numpy())
    check_structure(model, len(CLASSES))
    vars(model)[name] = 1
    with pytest.raises(UnsoundModelError, match="RadiusVote"):
        check_structure(model, len(CLASSES))
