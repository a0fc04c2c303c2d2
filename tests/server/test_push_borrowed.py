"""A coordinator that has seen a basis being learned takes no proof that rests on it."""

import json

import consortium
import pytest


@pytest.mark.filterwarnings("ignore")
def test_a_basis_that_the_study_saw_being_learned_proves_nothing(tmp_path, client):
    """One site learns a basis and pushes it as what it is; another gives the same basis, with a reason of its own."""

    def released(seed, **parameters):
        body = consortium.release(
            tmp_path,
            seed=seed,
            mechanism="principal-laplace",
            parameters={"b": 2.0, **parameters},
            ledger=tmp_path / f"ledger-of-{seed}.json",
        )
        return body, json.loads((tmp_path / "release" / "card.json").read_text())

    learned, card = released(0, components=3)
    pasted, claim = released(1, basis=card["transform"]["matrix"], basis_reason="published by the state office")
    assert (card["guarantee"]["kind"], claim["guarantee"]["kind"]) == ("empirical-only", "local-dp")
    terms = consortium.study(
        mechanism={"name": "principal-laplace", "parameters": {}}, guarantee="empirical-allowed", space=card["space"]
    )
    study = consortium.Study(client, *client.app.state.store.studies.create(terms))
    assert study.push(learned, study.invite("A")).status_code == 201
    answer = study.push(pasted, study.invite("B"))
    assert answer.status_code == 422
    assert "learned from people's rows" in answer.text
    assert len(study.store.releases.all(study.id)) == 1

    alone = consortium.Study(client, *client.app.state.store.studies.create(terms))
    assert alone.push(pasted, alone.invite("B")).status_code == 201  # nobody here can know where it comes from
