"""Settings of attacks: declared once, described, checked, used, and told in the audit."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.attacks import ATTACKS
from sfumato.auditing.asked import AuditAsked, settings_of
from sfumato.core.errors import UsageError
from sfumato.guarantee.cost import posterior_bound

DOCS = Path(__file__).parents[2] / "docs" / "attacks.md"


@pytest.mark.parametrize("name", [name for name, attack in ATTACKS.items() if inspect.signature(attack).parameters])
def test_every_setting_is_declared_described_and_documented(name):
    attack = ATTACKS[name]
    defaults = {one.name: one.default for one in inspect.signature(attack).parameters.values()}
    assert list(attack.accepts) == list(defaults)
    attack().check()  # defaults lie in their own range
    described = dict(re.findall(r"^(\w+) : (.+)$", inspect.getdoc(attack).partition("----\n")[2], re.MULTILINE))
    assert list(described) == list(defaults)
    for setting, default in defaults.items():
        spelled = str(default).lower() if isinstance(default, bool) else "null" if default is None else str(default)
        assert re.search(r"default=(.+)$", described[setting]).group(1).strip('"') == spelled, setting
    line = re.search(rf"^\| `{name}` \|.*$", DOCS.read_text(encoding="utf-8").split("## Settings")[1], re.MULTILINE)
    assert [one for one in defaults if f"`{one}`" not in line.group(0)] == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"oracle.rho1": 0.1}, "There is no attacker 'oracle'. Choose from: attribute-inference"),
        ({"posterior-breach.rho3": 0.1}, "has no parameter 'rho3'. It has: rho1, rho2, parts, grid, rows."),
        ({"posterior-breach.rho1": 1.5}, "'rho1' parameter of the attack posterior-breach must be a number between 0"),
        ({"posterior-breach.rho1": 0.6}, "must be below rho2"),
        ({"posterior-breach": 0.6}, "ATTACK.NAME=VALUE"),
        ({"hard-interval.reach": 1}, "has no parameter 'reach'. It has none."),
        ({"membership.statistic": "luck"}, "one of best, likelihood, distance"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(given, says):
    with pytest.raises(UsageError, match=re.escape(says)):
        settings_of(given)


def test_names_may_be_given_by_whatever_yields_them():
    """They are read more than once: an audit in which nobody attacks would look like a safe release."""
    asked = AuditAsked(
        original="table.csv",
        attacks=iter(["naive-estimate"]),
        quasi_identifiers=(name for name in ("age", "sex")),
        sensitive=np.array(["ill", "pay"]),
    )
    for _ in range(2):
        asked.check(carded=False)
        assert [attack.name for attack in asked.chosen] == ["naive-estimate"]
        assert list(asked.quasi_identifiers) == ["age", "sex"]
        assert list(asked.sensitive) == ["ill", "pay"]


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(4)
    age = rng.normal(50, 12, 300).round()
    return {"age": age.tolist(), "ill": np.where(age + rng.normal(0, 5, 300) > 52, "yes", "no").tolist()}


def test_a_breach_counts_from_the_prior_that_is_asked_for(people):
    """Twenty intervals have priors of 5%: none is below 1%, and two intervals of 50% are not rare either."""
    release = sf.sanitize(people, label="ill", mechanism="additive-noise", parameters={"scale": 0.02}, seed=1)
    common = {"original": people, "repeats": 0, "attacks": ["posterior-breach"]}
    usual = sf.audit(release, **common).attack("posterior-breach")
    assert usual["score"] > 0.3
    assert "parameters" not in usual
    rarer = sf.audit(release, **common, parameters={"posterior-breach": {"rho1": 0.005}}).attack("posterior-breach")
    assert "no record has a property with prior of at most 0.005" in rarer["not_applicable"]
    surer = sf.audit(release, **common, parameters={"posterior-breach.rho2": 0.99}).attack("posterior-breach")
    assert surer["score"] < usual["score"] - 0.15
    assert surer["parameters"] == {"rho2": 0.99}


def test_a_breach_needs_no_holdout_and_holds_for_whatever_is_released(people):
    """The paper's adversary knows how the table itself is distributed; Eq. 2 bounds the belief for every y."""
    words = {"label": "ill", "seed": 1, "schema": None}
    people = {**people, "pulse": np.random.default_rng(0).normal(70, 9, 300).tolist()}
    asked = {"original": people, "repeats": 0, "attacks": ["posterior-breach"]}
    for mechanism, parameters, level in (
        ("principal-laplace", {"b": 0.5, "components": 1}, "record"),
        ("additive-noise", {"scale": 0.5}, "column"),
    ):
        release = sf.sanitize(people, mechanism=mechanism, parameters=parameters, **words)
        entry = sf.audit(release, **asked).attack("posterior-breach")
        told, epsilon = entry["details"], getattr(release.card.made_by().epsilons(), level)
        assert 0.03 < told["rare_prior"] < 0.1
        assert told["any_release"] == pytest.approx(posterior_bound(told["rare_prior"], epsilon))
        assert told["largest_odds_ratio"] <= np.exp(epsilon)
        assert entry["score"] is not None
    naked = sf.sanitize(people, mechanism="additive-noise", parameters={"law": "normal", "scale": 0.5}, **words)
    assert sf.audit(naked, **asked).attack("posterior-breach")["details"]["any_release"] == 1.0


def test_on_the_command_line(people, tmp_path, capsys):
    table = tmp_path / "people.csv"
    lines = ["age,ill", *(f"{age},{ill}" for age, ill in zip(people["age"], people["ill"], strict=True))]
    table.write_text("\n".join(lines))
    release = sf.sanitize(people, label="ill", mechanism="additive-noise", parameters={"scale": 0.02}, seed=1)
    release.save(tmp_path / "r")
    words = ["audit", str(tmp_path / "r"), "--original", str(table), "--attack", "posterior-breach"]
    assert run_guarded(app, [*words, "--param", "posterior-breach.rho1=.06", "--out", str(tmp_path / "a")]) == 0
    assert "with rho1=0.06" in capsys.readouterr().out
    assert "Run with rho1 = 0.06." in (tmp_path / "a" / "report.html").read_text()
    assert run_guarded(app, [*words, "--param", "posterior-breach.rho=1", "--out", str(tmp_path / "b")]) == 2
    assert "It has: rho1, rho2" in capsys.readouterr().err
