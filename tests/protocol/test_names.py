"""Names of sites: one script each, and no two that a reader takes for one another."""

import pytest

from sfumato.core.errors import UsageError
from sfumato.study.protocol.agreed import check_name, skeleton


@pytest.mark.parametrize(
    "name",
    [
        "St. Mary",
        "Zürich_2",
        "Клиника №5".replace("№", ""),
        "Αθήνα",
        "東京びょういん",
        "서울 病院",
        "مستشفى ٣",
        "Ward 12",
    ],
)
def test_names_of_all_languages_are_taken(name):
    assert check_name(name, "site")


@pytest.mark.parametrize("name", ["St. M\u0430ry", "N\u03bfrth", "\u0421linic", "北Nord", "\u13a0bc"])
def test_letters_of_two_scripts_are_refused_in_words(name):
    with pytest.raises(UsageError, match=r"one script.*mixes"):
        check_name(name, "site")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cop", "\u0441\u043e\u0440"),  # all Cyrillic
        ("North", "NORTH"),
        ("Site 1", "Site l"),
        ("Site 1", "Site I"),
        ("Ward 0", "Ward O"),
        ("KOPA", "\u039a\u039f\u03a1\u0391"),  # all Greek
        ("dinner", "d\u0131nner"),
        ("North", "\uff2eorth"),
    ],
)
def test_doubles_have_one_skeleton(one, other):
    assert skeleton(one) == skeleton(other)


@pytest.mark.parametrize(("one", "other"), [("Site 1", "Site 2"), ("North", "South"), ("Nord-1", "Nord 1"), ("é", "e")])
def test_names_that_differ_to_the_eye_differ(one, other):
    assert skeleton(one) != skeleton(other)
