"""A push: received, checked, durable, acknowledged, and repeated without harm."""

import consortium


def test_a_push_is_acknowledged_and_kept(study, body):
    token = study.invite()
    answer = study.push(body, token)
    assert answer.status_code == 201, answer.text
    receipt = answer.json()
    assert receipt["sha256"] == consortium.sha(body)
    assert (receipt["bytes"], receipt["rows"], receipt["purpose"]) == (len(body), 60, "train")
    assert (receipt["site"], receipt["study"], receipt["assertions"]) == ("St. Mary", study.id, "site-asserted")
    folder = study.client.app.state.context.folder
    assert folder.release(study.id, receipt["sha256"]).read_bytes() == body
    assert not list((folder.data / "incoming").glob("*/????????*"))

    again = study.push(body, token)
    assert (again.status_code, again.json()) == (200, receipt)
