"""The score of every attack of an audit that applied, by name."""


def scores_of(found):
    return {entry["name"]: entry["score"] for entry in found.data["attacks"] if entry["score"] is not None}
