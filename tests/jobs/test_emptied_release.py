"""A released cell that somebody emptied: whoever reads the release refuses it, and says where."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.auditing.audit import audit
from sfumato.core.errors import TableError
from sfumato.guarantee import Card
from sfumato.learn.model import load_model
from sfumato.learn.reconstruct import reconstruct
from sfumato.learn.train import train
from sfumato.release.check_rows import wrong_rows
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize
from sfumato.release.write_release import CARD_METADATA
from sfumato.study.pooling.gather import Pushed, embedded_card, read_part
from sfumato.table import open_table, write_table

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")

ROWS = 120


def table():
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, ROWS),
            "weight": np.where(np.arange(ROWS) % 10 == 0, np.nan, rng.normal(70, 10, ROWS)),
            "colour": rng.choice(["red", "blue"], ROWS),
            "ill": rng.choice(["yes", "no"], ROWS),
        }
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Releases of one table: by columns and mixed, whole and with a cell emptied."""
    folder = tmp_path_factory.mktemp("emptied")
    table().to_csv(folder / "table.csv", index=False)
    for name, mechanism, column in (
        ("age", "additive-noise", "age"),
        ("colour", "additive-noise", "colour"),
        ("mixed", "principal-laplace", "c001"),
    ):
        options = Options(mechanism=mechanism, parameters={}, label="ill", seed=1)
        sanitize(table(), folder / f"{name}-whole", options)
        sanitize(table(), folder / name, options)
        empty(folder / name, column, row=7)
    train([folder / "age-whole"], classifier="naive-bayes").save(folder / "age.skops")
    train([folder / "mixed-whole"], classifier="naive-bayes").save(folder / "mixed.skops")
    return folder


def empty(folder, column, row):
    card, released = Card.load(folder), open_table(folder / "release.parquet").read()
    cells = released[column].to_pylist()
    cells[row - 1] = None
    place = released.column_names.index(column)
    changed = released.set_column(place, column, pa.array(cells, released[column].type))
    write_table(changed, folder / "release.parquet", metadata={CARD_METADATA.decode(): card.to_json()})


WHERE = {"age": "Column 'age' .* row 7", "colour": "Column 'colour' .* row 7", "mixed": "Column 'c001' .* row 7"}


@pytest.mark.parametrize("name", WHERE)
class TestEveryReader:
    def test_train(self, home, name, tmp_path):
        with pytest.raises(TableError, match=WHERE[name]):
            train([home / name], classifier="naive-bayes").save(tmp_path / "m.skops")
        assert not (tmp_path / "m.skops").exists()

    def test_audit(self, home, name, tmp_path):
        with pytest.raises(TableError, match=WHERE[name]):
            audit(home / name, original=home / "table.csv", out=tmp_path, repeats=0)

    def test_predict_from_released_rows(self, home, name, tmp_path):
        model = "mixed.skops" if name == "mixed" else "age.skops"
        with pytest.raises(TableError, match=WHERE[name]):
            load_model(home / model).classify(home / name).save(tmp_path / "p.csv")

    def test_reconstruct(self, home, name):
        column = {"mixed": "c001"}.get(name, name)
        with pytest.raises(TableError, match="1 empty cell"):
            reconstruct(home / name, column)

    def test_the_pool(self, home, name):
        pushed = Pushed(home / name / "release.parquet", "north", "sha256:0")
        card = embedded_card(pushed)
        with pytest.raises(TableError, match=WHERE[name]):
            read_part(pushed, card, card.rows, np.random.default_rng(0))


def test_rows_are_counted_over_all_blocks(home, monkeypatch):
    monkeypatch.setattr("sfumato.release.check_rows.BLOCK", 50)
    path = home / "age-whole" / "release.parquet"
    card, released = Card.load(path.parent), open_table(path).read()
    classes = released["ill"].to_pylist()
    classes[104] = "perhaps"
    changed = released.set_column(released.column_names.index("ill"), "ill", pa.array(classes))
    write_table(changed, home / "odd.parquet")
    assert "row 105" in wrong_rows(home / "odd.parquet", card)


def test_what_the_card_calls_missing_is_still_read(home):
    release = Release.open(home / "age-whole")
    group = next(group for group in release.encoding.groups if group.column.name == "weight")
    assert 0 < np.mean(release.Z[:, group.stop - 1]) < 1


def test_as_a_command(home, tmp_path, capsys):
    assert run_guarded(app, ["train", str(home / "age"), "--out", str(tmp_path / "m.skops")]) == 3
    assert "'age' of the release is empty in row 7" in capsys.readouterr().err
