"""Whose row is whose without a trace: matched as an adversary would, told by an id, or told by a file."""

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from daily import first_daily
from scores import scores_of
from sfumato.auditing import matching, open_case
from sfumato.auditing.audit import audit
from sfumato.auditing.matching import disjoint, drawn, match_people, rivals, strength
from sfumato.auditing.report.evidence import copied_rows, strongest
from sfumato.core.errors import TableError, UsageError
from sfumato.table import open_table, write_table
from sfumato.table.neighbours.nearest import nearest

pytestmark = pytest.mark.filterwarnings("ignore")


def noisy(data_folder, strength, members=300, strangers=250, name="pima"):
    table = open_table(data_folder / f"{name}.csv").read()
    order = np.random.default_rng(5).permutation(table.num_rows)
    people, others = table.take(order[:members]), table.take(order[members : members + strangers])
    rng = np.random.default_rng(1)
    changed = {}
    for column in table.column_names:
        values = np.asarray(people[column], dtype=np.float64) if column != "label" else None
        noise = None if values is None else strength * values.std() * rng.standard_normal(members)
        changed[column] = people[column] if values is None else pa.array(values + noise)
    release = pa.table(changed)
    return people, others, release, release.take(rng.permutation(members))


@pytest.mark.parametrize("strength", first_daily([0.5, 0.2, 0.02]))
def test_a_shuffled_release_scores_what_the_unshuffled_one_does(strength, data_folder):
    """At 0.5 half of the links are wrong: scored against the best match, every attack would look too good."""
    people, others, release, shuffled = noisy(data_folder, strength)
    before = audit(release, original=people, holdout=others, label="label", repeats=0)
    after = audit(shuffled, original=people, holdout=others, label="label", repeats=0)
    assert before.data["settings"]["alignment"] == "same-order"
    assert after.data["settings"]["alignment"] == "matched"
    assert any("judged by this match" in note for note in after.data["notes"])
    assert set(scores_of(after)) == set(scores_of(before))
    assert len(scores_of(after)) >= 10
    for name, score in scores_of(after).items():
        low, high = before.attack(name)["interval"]
        spread = max(high - low, 0.01) / 2  # the match is one draw: as uncertain as the score itself
        assert low - spread <= score <= high + spread, name


def test_a_match_is_drawn_by_its_likelihood():
    """Three people, three rows: the frequencies of the six matches are their likelihoods."""
    people = np.array([[0.0], [1.0], [1.5]])
    rows = np.array([[0.4], [0.9], [1.1]])
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    weight = np.array([np.exp(-0.5 * ((rows - people[list(order)]) ** 2).sum()) for order in orders])
    distance, near = nearest(rows, people, k=3)
    share = np.exp(-0.5 * distance**2)
    rng = np.random.default_rng(0)
    found = [tuple(drawn(np.arange(3), people, rows, near, share, rng, sweeps=60)) for _ in range(400)]
    edges, _ = rivals(near, share, len(people))
    assert {tuple(edge) for edge in edges} == {(0, 1), (0, 2), (1, 2)}
    counts = np.array([found.count(order) for order in orders])
    expected = 400 * weight / weight.sum()
    assert ((counts - expected) ** 2 / expected).sum() < 20.5, "chi-squared with 5 degrees: 1 in 1,000"


def test_the_strength_of_the_change_is_estimated_without_pairs():
    rng = np.random.default_rng(0)
    people = rng.random((800, 4))
    truth = np.array([0.05, 0.1, 0.02, 0.2])
    found = strength(people, rng.permutation(people) + truth * rng.standard_normal((800, 4)), rng)
    assert found == pytest.approx(truth, rel=0.15)


def test_strangers_are_not_matched_and_people_are():
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(3, 6))
    draw = lambda: rng.normal(size=(400, 3)) @ mix + 0.5 * rng.normal(size=(400, 6))  # noqa: E731
    people, others, strangers = draw(), draw(), draw()
    assert match_people(people, others, None, rng) is None
    assert match_people(people, others, strangers, rng) is None
    rows = rng.permutation(people) + 0.1 * rng.normal(size=people.shape)
    assert match_people(people, rows, None, rng) is not None


def test_a_part_of_the_people_and_a_large_table_are_matched_too(monkeypatch):
    monkeypatch.setattr(matching, "MOST_EXACT", 400)
    rng = np.random.default_rng(0)
    people = rng.random((500, 5))
    chosen = rng.permutation(len(people))[:200]
    found = match_people(people, people[chosen] + 0.02 * rng.standard_normal((200, 5)), None, rng)
    assert not found.exact
    assert np.mean(found.source == chosen) > 0.9
    assert len(np.unique(found.source)) == 200, "nobody has two rows"
    twice = np.concatenate([chosen, chosen])
    again = match_people(people[chosen], people[twice] + 0.02 * rng.standard_normal((400, 5)), None, rng)
    assert np.mean(chosen[again.source] == twice) > 0.9


def test_disjoint_edges_touch_nothing_twice():
    edges = np.array([[0, 1], [1, 2], [2, 3], [4, 5]])
    assert disjoint(edges, 6).tolist() == [0, 3], "the second and third touch an earlier one"


class TestTold:
    """An id in both tables, or a file of row numbers."""

    def test_by_a_column(self, data_folder):
        people, others, release, _ = noisy(data_folder, 0.5)
        order = np.random.default_rng(3).permutation(300)
        people = people.append_column("id", pa.array([f"p{i:03d}" for i in range(300)]))
        release = release.append_column("ID", people["id"]).take(order)
        found = audit(
            release, original=people, holdout=others, label="label", repeats=0, match="id", columns={"id": "ID"}
        )
        assert found.data["settings"]["alignment"] == "id"
        assert "id" not in found.data["release"]["source_columns"]
        with pytest.raises(TableError, match=r"The release has no column 'id'"):
            audit(release, original=people, label="label", repeats=0, match="id")

    def test_by_a_file(self, data_folder, tmp_path):
        people, others, release, _ = noisy(data_folder, 0.5)
        order = np.random.default_rng(3).permutation(300)
        write_table(pa.table({"original": order + 1}), tmp_path / "all.csv")
        told = audit(
            release.take(order), original=people, holdout=others, label="label", repeats=0, mapping=tmp_path / "all.csv"
        )
        plain = audit(release, original=people, holdout=others, label="label", repeats=0)
        assert told.data["settings"]["alignment"] == "mapping"
        assert told.attack("naive-estimate")["score"] == pytest.approx(plain.attack("naive-estimate")["score"])
        write_table(pa.table({"original": [301], "release": [1]}), tmp_path / "beyond.csv")
        with pytest.raises(TableError, match=r"rows are 1 to 300"):
            audit(release, original=people, repeats=0, mapping=tmp_path / "beyond.csv")
        with pytest.raises(UsageError, match="not by both"):
            audit(release, original=people, repeats=0, mapping="a", match="b")


def test_columns_that_were_dropped_or_renamed(data_folder):
    people, others, release, _ = noisy(data_folder, 0.1)
    first, second, *_ = people.column_names
    narrower = release.drop_columns([first]).rename_columns(
        ["renamed" if name == second else name for name in release.column_names[1:]]
    )
    found = audit(narrower, original=people, holdout=others, label="label", repeats=0, columns={second: "renamed"})
    assert found.data["release"]["source_columns"] == people.column_names[1:-1]
    assert any("does not have were left out" in note for note in found.data["notes"])
    with pytest.raises(TableError, match="no column of the original"):
        audit(pa.table({"x": [1, 2, 3]}), original=people, repeats=0)
    with pytest.raises(TableError, match="--columns names"):
        audit(narrower, original=people, repeats=0, columns={second: "rename"})


class TestCopiesAmongMadeUpRows:
    """One row in ten is somebody's; the others are as near to people who are not in the table."""

    COLUMNS = 6

    def rows(self, count, seed):
        rng = np.random.default_rng(seed)
        mix = np.random.default_rng(99).normal(size=(3, self.COLUMNS))
        return rng.normal(size=(count, 3)) @ mix + 0.5 * rng.normal(size=(count, self.COLUMNS))

    def table(self, X):
        return pa.table({f"x{i}": X[:, i] for i in range(self.COLUMNS)})

    @pytest.mark.parametrize("noise", [0.0, 0.02])
    def test_only_rows_that_fit_a_person_better_than_strangers_are_matched(self, noise):
        rng = np.random.default_rng(0)
        people, strangers = self.rows(800, 1), self.rows(800, 2)
        rows = np.vstack([self.rows(720, 3), people[:80] + noise * rng.standard_normal((80, self.COLUMNS))])
        for holdout in (strangers, strangers[:300]):
            found = match_people(people, rows, holdout, rng)
            assert np.mean(found.source[720:] == np.arange(80)) > 0.97
            assert np.count_nonzero(found.source[:720] >= 0) <= 12, "one in twenty is allowed by chance"
        if noise:
            assert match_people(people, rows[:720], strangers, rng) is None
        else:
            found = match_people(people, rows, None, rng)
            assert np.array_equal(np.flatnonzero(found.source >= 0), np.arange(720, 800)), "copies need no holdout"

    def test_noise_on_everybody_is_matched_as_before(self):
        rng = np.random.default_rng(0)
        people, strangers = self.rows(800, 1), self.rows(800, 2)
        found = match_people(people, people + 0.4 * rng.standard_normal(people.shape), strangers, rng)
        assert (found.source >= 0).all()

    def test_the_audit_leads_with_the_copies_and_scores_on_them(self):
        people, strangers = self.rows(800, 1), self.rows(800, 2)
        rows = np.random.default_rng(4).permutation(np.vstack([self.rows(720, 3), people[:80]]))
        found = audit(self.table(rows), original=self.table(people), holdout=self.table(strangers), repeats=0).data
        assert copied_rows(found["copies"]).startswith("80 of 800 released rows are copies")
        by_name = {entry["name"]: entry for entry in found["attacks"]}
        assert not any(entry.get("failed") for entry in found["attacks"])
        own = by_name["naive-estimate"]["details"]
        assert 80 <= own["rows_of_people"] <= 92
        assert own["rows_in_all"] == 800
        assert by_name["naive-estimate"]["score"] > 0.97, "of those whose row is there, everything"
        assert by_name["membership"]["score"] < 0.3, "of everybody, one in ten"
        assert "rows_of_people" not in by_name["membership"]["details"]
        assert strongest(found["attacks"])[0].beside.endswith("of 800 rows, which fit a person")
        assert all(entry["record"] <= 80 for entry in found["riskiest"][:5])


def test_rows_far_out_have_one_outlier_nearest_and_count_once():
    """Made-up rows in wide ranges all have the one person nearest who lies far out, and are still nobody's."""
    rng = np.random.default_rng(5)
    people, strangers = rng.normal(size=(300, 5)), rng.normal(size=(100, 5))
    people[0] = 8.0
    rows = rng.uniform(5.0, 12.0, size=(300, 5))
    assert not matching.fit_a_person(people, rows, strangers, rng).any()
    assert not matching.nearer_than_strangers(people, rows, strangers, rng)
    blurred = people + rng.normal(scale=0.1, size=people.shape)
    assert matching.fit_a_person(people, blurred, strangers, rng).mean() > 0.5
    assert matching.nearer_than_strangers(people, blurred, strangers, rng)


def test_made_up_rows_are_nobodys_however_near_they_lie(monkeypatch):
    """Matched by nearness they would contradict their own proof: 90 of 100 pairs beside a bound of 56."""

    def never(*_):
        pytest.fail("made-up rows were matched to people")

    monkeypatch.setattr(open_case, "match_people", never)
    known = {"source": "public", "reason": "the form"}
    schema = sf.Schema(tuple(sf.Column(name, "numeric", low=0, high=100, **known) for name in ("a", "b")))
    rng = np.random.default_rng(0)
    people = pa.table({name: np.minimum(100, rng.lognormal(1, 1, 300)) for name in ("a", "b")})
    found = sf.audit(sf.sanitize(people, schema=schema, epsilon=1), original=people, repeats=0).data
    assert found["settings"]["alignment"] == "unknown"
    assert any("none of them is anybody's" in note for note in found["notes"])
