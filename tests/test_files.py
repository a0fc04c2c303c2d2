"""Durable files: a whole result or none, and private files stay private."""

import errno
import os
import stat
import threading

import pytest

from sfumato.core import files
from sfumato.core.errors import OutputError, UsageError
from sfumato.core.files import is_private, new_folder, write_whole


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def any_umask():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("any_umask")
def test_private_files_are_private_whatever_the_umask(tmp_path):
    write_whole(tmp_path / "key", b"secret", private=True)
    write_whole(tmp_path / "card", "shared")
    assert mode(tmp_path / "key") == 0o600
    assert mode(tmp_path / "card") == 0o644
    assert is_private(tmp_path / "key")
    assert not is_private(tmp_path / "card")


def test_a_private_file_is_private_from_its_first_byte(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(files.os, "fsync", lambda _: seen.extend(mode(path) for path in tmp_path.iterdir()))
    write_whole(tmp_path / "key", "secret", private=True)
    assert seen[0] == 0o600


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such files")
def test_a_device_or_a_folder_is_never_replaced_by_a_file(tmp_path):
    """As root, a rename would put a file where /dev/full was."""
    os.mkfifo(tmp_path / "device")
    (tmp_path / "folder").mkdir()
    for name in ("device", "folder"):
        with pytest.raises(OutputError, match="folder or a device"):
            write_whole(tmp_path / name, "x")
    assert stat.S_ISFIFO((tmp_path / "device").stat().st_mode)


def test_writing_over_a_file_replaces_content_and_mode(tmp_path):
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)
    write_whole(path, "new", private=True)
    assert path.read_text() == "new"
    assert mode(path) == 0o600


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), RuntimeError()])
def test_a_file_that_could_not_be_finished_is_not_begun(tmp_path, monkeypatch, failure):
    path = tmp_path / "card.json"
    path.write_text("old")

    def fail(_):
        raise failure

    monkeypatch.setattr(files.os, "fsync", fail)
    expected = OutputError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["card.json"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "is full. Nothing was written"),
        (errno.EDQUOT, "is full. Nothing was written"),
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "permission denied"),
        (errno.EIO, "cannot be written"),
    ],
)
def test_what_the_system_refuses_is_told_in_words(tmp_path, code, words):
    with pytest.raises(OutputError, match=words) as caught, new_folder(tmp_path / "out") as folder:  # noqa: PT012
        (folder / "half").write_text("half")
        raise OSError(code, os.strerror(code))
    assert str(tmp_path / "out") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_appears_whole(tmp_path):
    out = tmp_path / "deep" / "out"
    with new_folder(out) as folder:
        assert folder.parent == out.parent
        assert mode(folder) == 0o700
        (folder / "a").write_text("1")
        assert not out.exists()
    assert (out / "a").read_text() == "1"
    assert mode(out) == 0o755
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, RuntimeError, GeneratorExit])
def test_an_interruption_leaves_nothing(tmp_path, interruption):
    with pytest.raises(interruption), new_folder(tmp_path / "out") as folder:  # noqa: PT012
        (folder / "sub").mkdir()
        (folder / "sub" / "half").write_text("half")
        raise interruption
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_kept_unless_forced(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("old")
    with pytest.raises(OutputError, match=r"exists already.*--force, in Python force=True"), new_folder(out):
        pass
    with pytest.raises(KeyboardInterrupt), new_folder(out, force=True):
        raise KeyboardInterrupt
    assert [file.name for file in out.iterdir()] == ["old"]
    with new_folder(out, force=True) as folder:
        (folder / "new").write_text("new")
        assert (out / "old").exists()
    assert [file.name for file in out.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [out]


def test_a_replacement_that_fails_puts_the_old_folder_back(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("old")
    rename = files.Path.rename

    def fail_second(self, target):
        if target == out and not self.name.endswith(".old"):
            raise OSError(errno.EIO, "broken")
        return rename(self, target)

    monkeypatch.setattr(files.Path, "rename", fail_second)
    with pytest.raises(OutputError), new_folder(out, force=True):
        pass
    assert (out / "old").read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "out").write_text("mine")
    for force in (False, True):
        with pytest.raises(OutputError), new_folder(tmp_path / "out", force=force):
            pass
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("name", [".", "..", "/", ""])
def test_where_one_stands_is_never_replaced(tmp_path, monkeypatch, name):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mine").write_text("mine")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(OutputError, match="no name for a new folder"), new_folder(name, force=True):
        pass
    assert (tmp_path / "here" / "mine").read_text() == "mine"


def test_a_folder_below_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"), new_folder(tmp_path / "file" / "out"):
        pass


def test_a_lock_that_cannot_be_had_names_the_file_it_is_for(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(OutputError, match=r"file/deep/ledger\.json cannot be written"),
        new_folder(tmp_path / "out"),
        files.exclusive(tmp_path / "file" / "deep" / "ledger.json"),
    ):
        raise AssertionError


class _Windows:
    """Windows' way of locking: the first byte of a file, by one process at a time, and never waited for."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.held = False

    def locking(self, descriptor: int, kind: int, count: int) -> None:
        assert descriptor > 2
        assert (kind, count) == (self.LK_NBLCK, 1)
        if self.held:
            raise PermissionError
        self.held = True


def test_two_writers_never_meet_where_the_system_is_windows(tmp_path, monkeypatch):
    windows = _Windows()
    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr(files.importlib, "import_module", {"msvcrt": windows}.__getitem__)
    ledger = tmp_path / "ledger.json"
    with files.exclusive(ledger, busy=UsageError("busy")):
        assert windows.held
        with pytest.raises(UsageError, match="busy"), files.exclusive(ledger, busy=UsageError("busy")):
            pass
        with pytest.raises(OutputError, match="Another run"), files.sole_writer(ledger):
            pass
        threading.Timer(0.2, lambda: setattr(windows, "held", False)).start()
        with files.exclusive(ledger):  # waits until the other one is done
            assert windows.held
