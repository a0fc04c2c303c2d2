"""One switch: what the papers do instead of our defaults, where it reaches, what it refuses, and its mark."""

import click
import numpy as np
import pytest
from sklearn.datasets import load_wine
from typer.main import get_command

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.attacks import ATTACKS
from sfumato.attacks.metrics.information import information_loss
from sfumato.auditing.asked import AuditAsked
from sfumato.core.accepted import follows
from sfumato.core.errors import SchemaError, UsageError
from sfumato.guarantee.words import card_in_words
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier
from sfumato.mechanisms import MECHANISMS
from sfumato.noise import OperatorNoise, Uniform, make_operator
from sfumato.reconstruction.reconstruct import make_method, reconstruct
from sfumato.study.protocol.study_file import study_from_dict

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")


@pytest.fixture(scope="module")
def wine():
    return load_wine(as_frame=True).frame.iloc[:, [0, 1, 6, 13]].astype({"target": str})


@pytest.mark.parametrize(("name", "known"), [*MECHANISMS.items(), *CLASSIFIERS.items(), *ATTACKS.items()])
def test_what_is_declared_exists_and_differs_from_the_default_or_is_it(name, known):
    by_paper = known.published if name in CLASSIFIERS else {"its paper": known.published or {}}
    for published in by_paper.values():
        made = known(**published)
        assert all(getattr(made, one) == value for one, value in published.items()), name


def commands(group, path=()):
    for name in group.list_commands(click.Context(group)):
        one = group.get_command(click.Context(group), name)
        yield from commands(one, (*path, name)) if hasattr(one, "list_commands") else [(" ".join((*path, name)), one)]


NAMES_A_METHOD = {"--mechanism", "--classifier", "--method", "--learner", "--attack"}
REFUSES = {"compare", "study reconstruct"}
"""compare tries methods at strengths, which is in no paper; a coordinator reconstructs by the defaults."""
FOLLOWS_A_FILE = {"study new", "survey new"}


def test_every_command_that_takes_a_method_takes_the_switch_or_refuses_it(capsys):
    found = {path: {flag for one in made.params for flag in one.opts} for path, made in commands(get_command(app))}
    takes = {path for path, flags in found.items() if "--as-published" in flags}
    assert takes | REFUSES == {path for path, flags in found.items() if flags & NAMES_A_METHOD} | FOLLOWS_A_FILE
    for path in REFUSES | {"mine cluster", "mine regress", "mine rules", "recommend", "predict"}:
        assert run_guarded(app, [*path.split(), "--as-published"]) == 2
        assert "No such option: --as-published" in capsys.readouterr().err, path


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_method_is_marked_as_published_or_refused(wine, name):
    words = {"label": "target", "mechanism": name, "published": True, "experiment": True}
    if MECHANISMS[name].published is None:
        with pytest.raises(UsageError, match=rf"No paper has a variant of {name}\. Leave --as-published out"):
            sf.sanitize(wine, **words)
    else:
        own = {"operator": "x + e"} if "operator" in MECHANISMS[name]._get_param_names() else {}
        card = sf.sanitize(wine, **words, parameters=own).card
        assert card.mechanism["as_published"] is True
        assert MECHANISMS[name].published.items() <= card.mechanism["parameters"].items()


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attacker_is_changed_or_refused(wine, name):
    release = "a release that is not looked at"
    if not ATTACKS[name].published:
        with pytest.raises(UsageError, match=rf"No paper has a variant of the attacker {name} that differs"):
            AuditAsked(original=wine, attacks=[name], published=True).check(carded=True)
        return
    options = AuditAsked(original=wine, attacks=[name], published=True)
    options.check(carded=True)
    given, usual = options.settings[name], vars(ATTACKS[name]())
    assert given == dict(ATTACKS[name].published), release
    assert all(usual[parameter] != value for parameter, value in given.items())


BY_METHOD = {
    "kernel-resampling": {"knn": "knn weights=1", "mlp": "mlp scaled=false", "naive-bayes": "naive-bayes"},
    "random-rotation": {"knn": "knn weights=1", "svm": "svm gamma=1/columns scaled=false", "perceptron": "perceptron"},
    "principal-laplace": {
        "knn": "knn k=cross-validation weights=1/d^2",
        "radius-vote": "radius-vote prior_correction=false",
    },
}


@pytest.mark.parametrize("method", BY_METHOD)
def test_every_classifier_is_its_papers_or_refused(wine, method):
    release = sf.sanitize(wine, label="target", mechanism=method, seed=1)
    for name, known in CLASSIFIERS.items():
        if not known.published:
            with pytest.raises(UsageError, match=rf"No paper has a variant of {name}\."):
                sf.train(release, classifier=name, published=True)
    for name, text in BY_METHOD[method].items():
        model = sf.train(release, classifier=name, published=True)
        assert model.about["as_published"] is True
        assert choose_classifier(name, model.about["parameters"]).text == text


def test_papers_that_differ_are_not_chosen_between(wine):
    words = {"mechanism": "multiplicative-noise", "parameters": {"scale": 0.1}}
    release = sf.sanitize(wine, label="target", seed=1, **words)  # its paper has no classifier
    with pytest.raises(UsageError, match=r"Papers differ in knn, .*random-rotation: weights=1;"):
        sf.train(release, classifier="knn", published=True)
    with pytest.raises(UsageError, match=r"As published, knn has weights=1\."):
        choose_classifier("knn weights=1/d", published=("kernel-resampling",))
    with pytest.raises(UsageError, match="--public alone runs no attacker"):
        AuditAsked(original=wine, public=True, published=True).check(carded=True)


def test_components_as_published_keep_their_own_scale(wine):
    release = sf.sanitize(wine, label="target", mechanism="random-rotation", seed=1)
    words = {"original": wine, "repeats": 0, "attacks": ["independent-components"]}
    ours, theirs = (
        sf.audit(release, **words, published=flag).attack("independent-components") for flag in (False, True)
    )
    widths = [one["columns"][0]["interval_width"] for one in (ours, theirs)]
    assert widths[1] > 2 * widths[0]  # components of variance 1, where a column's deviation is about .2


def test_rehearsals_and_rotations_take_the_switch(wine):
    with pytest.raises(UsageError, match="No paper has a variant of square-wave"):
        sf.rehearse(wine, (1,), label="target", mechanism="square-wave", published=True)
    with pytest.raises(UsageError, match="No paper has a variant of forest"):
        sf.rehearse(wine, (1,), label="target", classifier="forest", published=True)
    words = {"label": "target", "repeats": 1}
    assert sf.rehearse(wine, (2,), **words).found != sf.rehearse(wine, (2,), **words, published=True).found
    found = sf.invariance(wine, label="target", rotations=1, max_rows=60, published=True).found
    assert {one.learner for one in found} >= {"knn weights=1", "svm gamma=1/columns scaled=false", "perceptron"}
    with pytest.raises(UsageError, match="No paper has a variant of a regression"):
        sf.invariance(wine, target="alcohol", published=True)


def test_the_switch_puts_the_papers_parameters_in_and_the_card_is_marked(wine):
    ours = sf.sanitize(wine, label="target", seed=1)
    theirs = sf.sanitize(wine, label="target", seed=1, published=True, parameters={"b": 0.2})
    used = theirs.card.mechanism["parameters"]
    assert (used["component_bounds"], used["noise"], used["b"]) == ("data", "float", 0.2)
    assert theirs.card.mechanism["as_published"] is True
    assert "as_published" not in ours.card.mechanism
    assert "), as published: 178 rows" in card_in_words(theirs.card)
    assert "as published" not in card_in_words(ours.card)
    assert "for one component alone: e^(1/b) = 148.41 at b = 0.2; " in card_in_words(theirs.card)
    assert "0.1% to at most 12.93%," in card_in_words(theirs.card)  # rho_2 of Fig. 6


def test_a_mark_needs_no_switch_and_no_switch_hides_a_contradiction(wine):
    by_hand = sf.sanitize(
        wine, label="target", seed=1, mechanism="kernel-resampling", parameters={"bandwidth": "published"}
    )
    assert by_hand.card.mechanism["as_published"] is True
    with pytest.raises(
        UsageError, match=r"As published, kernel-resampling has bandwidth=published\. Leave bandwidth out"
    ):
        sf.sanitize(wine, mechanism="kernel-resampling", published=True, parameters={"bandwidth": 0.1}, seed=1)
    own = {"alcohol": {"kernel": "gaussian"}}
    mixed = sf.sanitize(wine, label="target", seed=1, mechanism="kernel-resampling", published=True, columns=own)
    assert "as_published" not in mixed.card.mechanism  # a column's own choice is in no paper
    assert not follows(None, {})


def test_votes_without_priors_and_the_models_mark(wine):
    release = sf.sanitize(wine, label="target", mechanism="additive-noise", parameters={"scale": 0.1}, seed=1)
    model = sf.train(release, classifier="radius-vote", published=True)
    assert model.about["parameters"]["prior_correction"] is False
    assert model.about["as_published"] is True
    assert "as_published" not in sf.train(release, classifier="radius-vote").about


def test_a_model_is_marked_where_the_paper_of_its_releases_has_its_classifier(wine):
    words = {"kernel-resampling": {}, "random-rotation": {}, "additive-noise": {"scale": 0.1}}
    releases = {m: sf.sanitize(wine, label="target", mechanism=m, parameters=p, seed=1) for m, p in words.items()}
    marked = {
        (method, name)
        for method, release in releases.items()
        for name in ("naive-bayes", "perceptron", "knn")
        if "as_published" in sf.train(release, classifier=name).about
    }
    assert marked == {("kernel-resampling", "naive-bayes"), ("random-rotation", "perceptron")}
    changed = {"classifier": "naive-bayes", "parameters": {"pseudo_rows": 2.0}}
    assert "as_published" not in sf.train(releases["kernel-resampling"], **changed).about
    by_class = sf.train(releases["additive-noise"], classifier="naive-bayes", reconstruction="by-class")
    assert "as_published" not in by_class.about


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["compare", "t.csv"], "strengths on a ladder are in no paper"),
        (["study", "reconstruct"], "a coordinator reconstructs by the defaults"),
        (["mine", "rules", "r"], "no paper mines rules"),
    ],
)
def test_where_the_switch_is_not_it_says_why(command, why, capsys):
    assert run_guarded(app, [*command, "--as-published"]) == 2
    assert f"No such option: --as-published: {why}" in capsys.readouterr().err


def test_an_audit_filters_without_clipping(wine):
    release = sf.sanitize(wine, label="target", mechanism="additive-noise", parameters={"scale": 0.5}, seed=1)
    words = {"original": wine, "repeats": 0, "attacks": ["known-transform"]}
    ours, theirs = sf.audit(release, **words), sf.audit(release, **words, published=True)
    widths = [one.attack("known-transform")["columns"][0]["interval_width"] for one in (ours, theirs)]
    assert widths[1] > 1.5 * widths[0]  # Laplace noise of scale .5 leaves the domain more often than not
    assert theirs.attack("known-transform")["parameters"] == {"clip": False}
    assert theirs.data["settings"]["as_published"] is True


def test_reconstruction_without_our_penalty():
    program = make_method("parzen-program", published=True)
    assert (program.penalty, program.rule, program.matched) == (0.0, "rectangle", False)
    with pytest.raises(UsageError, match=r"As published, parzen-program has penalty=0\.0"):
        make_method("parzen-program", {"penalty": 0.1}, published=True)
    rng = np.random.default_rng(0)
    people = {"x": rng.normal(50, 8, 2000)}
    release = sf.sanitize(people, mechanism="additive-noise", parameters={"scale": 0.1}, seed=1)
    rough, smooth = (sf.reconstruct(release, "x", resamples=0, published=flag) for flag in (True, False))
    bends = [float(np.abs(np.diff(found.mass, 2)).sum()) for found in (rough, smooth)]
    assert bends[0] > 2 * bends[1]  # spiky, as the unpenalised programme is


def test_iteration_as_published_needs_its_rounds(data_folder):
    """The paper prints .1208 for Add + EM and no stopping rule; 50 rounds on 75 cells come to .113, not to .07."""
    name = "expectation-maximization"
    with pytest.raises(UsageError, match=r"the paper does not say where it stopped. Name the rounds"):
        make_method(name, published=True)
    fifty = {"rounds": 50}
    assert make_method(name, fifty, published=True) == make_method(name, {"stopping": 50})
    for rounds in (0, 10**6, True, 2.5):
        with pytest.raises(UsageError, match="a whole number from 1 to 10,000"):
            make_method(name, {"rounds": rounds})
    for words in ({"rounds": "successive"}, {"rounds": 50, "stopping": "successive"}):
        with pytest.raises(UsageError, match="in place of a rule of stopping"):
            make_method(name, words)
    with pytest.raises(UsageError, match=r"As published, expectation-maximization has smooth=False"):
        make_method(name, {**fifty, "smooth": True}, published=True)
    with pytest.raises(UsageError, match="Parzen-program has no parameter 'rounds'"):
        make_method("parzen-program", fifty)
    income = np.genfromtxt(data_folder / "county_income.csv", delimiter=",", skip_header=1, usecols=3)
    noise = OperatorNoise(make_operator("additive"), Uniform(low=-21850.0, high=21850.0))  # a privacy loss of .330
    losses = []
    for seed in range(4):
        z = noise.sample(income, np.random.default_rng(seed))
        words = {"support": (income.min(), income.max()), "resamples": 0, "atoms": False}
        found = reconstruct(z, noise, method=make_method(name, fifty, published=True), **words)
        losses.append(information_loss(income, found))
    assert np.mean(losses) == pytest.approx(0.113, abs=0.025)


def test_the_trade_off_follows_the_switch():
    pay = np.random.default_rng(0).gamma(4.0, 8.0, 1500).clip(1.0, 100.0)
    words = {"levels": (0.33,), "runs": 2, "bins": 40}
    column = {"name": "pay", "kind": "numeric", "low": 1, "high": 100, "source": "public", "reason": "made up"}
    how = {"mechanism": "additive-noise", "parameters": {"law": "uniform", "low": -0.2, "high": 0.2}, "seed": 1}
    release = sf.sanitize({"pay": pay}, schema=sf.Schema.from_dict({"columns": [column]}), **how)
    ours, theirs, rounds = (
        sf.trade_off(release, "pay", {"pay": pay}, **words, **more)
        for more in ({}, {"published": True}, {"published": True, "rounds": 50})
    )
    assert theirs.lines["added, programme"][0][1] > 1.3 * ours.lines["added, programme"][0][1]
    assert theirs.summary()["as_published"] is True
    assert "as_published" not in ours.summary()
    assert "as published" in theirs.plot()
    assert "added, EM" not in theirs.lines
    assert "does not say where it stopped" in theirs.summary()["left_out"]
    assert rounds.lines["added, EM"] != ours.lines["added, EM"]
    assert not rounds.left_out


def test_mechanisms_and_columns_without_a_published_variant_are_refused(wine):
    with pytest.raises(UsageError, match=r"No paper has a variant of square-wave\."):
        sf.sanitize(wine, label="target", mechanism="square-wave", published=True, seed=1)
    answers = {"q": ["a", "b", "b"] * 20, "ill": ["no", "yes"] * 30}
    theirs = {"order": "value", "balance": False, "floor": 0.0}
    with pytest.raises(UsageError, match=r"No paper has a variant of guided-projection\."):
        sf.sanitize(answers, label="ill", mechanism="guided-projection", published=True, seed=1)
    by_hand = sf.sanitize(answers, label="ill", mechanism="guided-projection", parameters=theirs, seed=1)
    assert "as_published" not in by_hand.card.mechanism  # guidance from plain rows is in no paper
    people = {"colour": ["red", "green"] * 50}
    release = sf.sanitize(people, mechanism="randomized-response", seed=1)
    with pytest.raises(UsageError, match="No paper reconstructs categories, and column 'colour' has them"):
        sf.reconstruct(release, "colour", published=True)


def test_study_files(wine):
    schema = sf.Schema.infer(wine, label="target").to_dict()
    study = {
        "kind": "pool",
        "name": "Wine",
        "schema": schema,
        "mechanism": {"name": "kernel-resampling"},
        "guarantee": "empirical-allowed",
        "classifiers": ["radius-vote n=3", "knn"],
    }
    read = study_from_dict({**study, "as_published": True})
    assert read.parameters == {"kernel": "epanechnikov", "bandwidth": "published"}
    assert read.classifiers == ("radius-vote n=3 prior_correction=false", "knn weights=1")
    assert study_from_dict(read.to_dict()).hash == read.hash
    assert study_from_dict({**study, "as_published": False}).hash == study_from_dict(study).hash
    with pytest.raises(SchemaError, match="must be true or false"):
        study_from_dict({**study, "as_published": "yes"})
    study["mechanism"]["parameters"] = {"bandwidth": "scaled"}
    with pytest.raises(SchemaError, match=r"has bandwidth=published.*or leave `as_published` out"):
        study_from_dict({**study, "as_published": True})
