"""Where jobs and `attach` meet: in a folder that is still there when the user has logged out."""

import contextlib
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracetui.capture.live import launch, meeting_folders
from tracetui.capture.live.model import AttachError

OURS = f"tracetui-{os.getuid()}" if hasattr(os, "getuid") else ""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Kineto can be asked on Linux only")


@pytest.fixture
def systemd(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime directory as systemd makes it, and folders for who may linger and for recordings."""
    root = meeting_folders.private(Path(f"/tmp/tp-{tmp_path_factory.getbasetemp().stat().st_ino}"))
    for name in ("user/1", "linger", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(meeting_folders, "SYSTEMD_RUNTIME", root / "user")
    monkeypatch.setattr(meeting_folders, "SYSTEMD_LINGER", root / "linger")
    monkeypatch.setattr(meeting_folders, "TEMPORARY", root / "tmp")
    monkeypatch.setattr(meeting_folders, "OTHERS", ())
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(root / "user/1"))
    yield root
    shutil.rmtree(root)


def test_not_where_systemd_removes_it_at_logout(systemd):
    assert meeting_folders.meeting_root() == systemd / "tmp" / OURS / "run"
    import pwd  # not on Windows

    (systemd / "linger" / pwd.getpwuid(os.getuid()).pw_name).touch()
    assert meeting_folders.meeting_root() == systemd / "user/1/tracetui"


def test_in_a_folder_that_the_user_named(systemd, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(systemd / "tmp"))
    assert meeting_folders.meeting_root() == systemd / "tmp/tracetui"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "tmp")  # not absolute: nobody knows where
    assert meeting_folders.meeting_root() == systemd / "tmp" / OURS / "run"


def test_what_was_left_behind_is_removed_a_day_later(systemd):
    """But not the folder of a job that still runs, though nobody answers it, nor the shared one."""
    root = meeting_folders.meeting_root()
    folders = {name: root / name for name in ("0000dead", "0000live", "0000new0", "shared")}
    sockets = {}
    for name, folder in folders.items():
        folder.mkdir()
        (folder / "lock").touch()
        sockets[name] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sockets[name].bind(str(folder / "dynoconfigclient"))
        if name != "0000live":
            sockets[name].close()
        if name != "0000new0":
            os.utime(folder, (1, 1))
    new = meeting_folders.new_meeting()
    left = {path.name for path in root.iterdir()}
    sockets["0000live"].close()
    assert left == {"0000live", "0000new0", "shared", new.name}

    recordings = systemd / "tmp" / OURS
    for name in ("recording-old", "recording-new", "other"):
        (recordings / name).mkdir()
    os.utime(recordings / "recording-old", (1, 1))
    os.utime(recordings / "other", (1, 1))
    new = meeting_folders.new_recording(recordings)
    assert {path.name for path in recordings.iterdir()} == {"run", "recording-new", "other", new.name}


as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root: another user's files"
)
OTHER = 23456


def _file(path: Path) -> None:
    path.touch()


def _to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


def _to_a_folder(path: Path) -> None:
    path.symlink_to(path.parent)


def _open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def _of_another(path: Path) -> None:
    path.mkdir(mode=0o700)
    os.chown(path, OTHER, OTHER)


@pytest.mark.parametrize(
    "squat", [_file, _to_nothing, _to_a_folder, _open_to_all, pytest.param(_of_another, marks=as_root)]
)
def test_another_name_is_taken_where_ours_is_not_safe(systemd, monkeypatch, squat):
    temporary = systemd / "tmp"
    before = temporary.stat().st_mode
    squat(temporary / OURS)
    squat(temporary / f"{OURS}-01234567")
    (temporary / f"{OURS}-backup").mkdir()
    found = meeting_folders.recording_root()
    assert (found.parent, len(found.name), found.is_symlink()) == (temporary, len(OURS) + 9, False)
    assert (found.stat().st_mode & 0o777, found.stat().st_uid) == (0o700, os.getuid())
    assert meeting_folders.recording_root() == found
    assert meeting_folders.meeting_root() == found / "run"
    assert meeting_folders.recording_root_of(os.getpid()) == (found, found)
    squat(temporary / "tracetui")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(temporary))
    assert re.fullmatch(r"tracetui-\w{8}", meeting_folders.meeting_root().name)
    assert temporary.stat().st_mode == before


def test_another_folder_is_taken_where_tmp_is_not_safe(systemd, monkeypatch):
    other = systemd / "other"
    other.mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    (systemd / "tmp").chmod(0o777)  # anybody may rename what is in it
    with pytest.raises(AttachError, match="tmp can be changed by other users: set TMPDIR to a folder of"):
        meeting_folders.recording_root()
    for folder in (systemd / "nothing", other):
        monkeypatch.setenv("TMPDIR", str(folder))
        with contextlib.suppress(AttachError):
            assert meeting_folders.recording_root() == other / OURS
            assert meeting_folders.meeting_root() == other / OURS / "run"
    (systemd / "tmp").chmod(0o1777)
    assert meeting_folders.recording_root() == systemd / "tmp" / OURS
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(meeting_folders, "TEMPORARY", systemd / "nothing")
    monkeypatch.setattr(meeting_folders, "OTHERS", (other,))
    assert meeting_folders.recording_root() == other / OURS


def test_sockets_are_where_their_paths_are_short_enough(systemd, monkeypatch):
    long = systemd / ("x" * 60)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    assert meeting_folders.meeting_root() == systemd / "tmp" / OURS / "run"
    monkeypatch.setattr(meeting_folders, "TEMPORARY", long)
    with pytest.raises(
        AttachError, match="too long for a socket: set TMPDIR to a folder of your own with a sh"
    ):
        meeting_folders.meeting_root()
    monkeypatch.setenv("TMPDIR", str(systemd / "tmp"))
    assert meeting_folders.meeting_root() == systemd / "tmp" / OURS / "run"


def test_the_folder_that_the_user_names_for_traces_is_enough(systemd, monkeypatch):
    monkeypatch.setattr(meeting_folders, "TEMPORARY", systemd / "nothing")
    meeting = systemd / "user"
    found = launch.environment(meeting, {"KINETO_ONDEMAND_TRACE_DIR": str(systemd)})
    assert found["KINETO_ONDEMAND_TRACE_DIR"] == str(systemd)
    found = launch.environment(meeting, {"KINETO_ONDEMAND_TRACE_DIR": ""})
    assert found["KINETO_ONDEMAND_TRACE_DIR"] == str(systemd / "user/1" / OURS)
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with pytest.raises(AttachError):
        launch.environment(meeting, {"KINETO_ONDEMAND_TRACE_DIR": ""})


def test_a_folder_is_guarded_if_others_cannot_rename_what_is_in_it(systemd):
    inner = systemd / "tmp" / "inner"
    inner.mkdir()
    link = systemd / "link"
    link.symlink_to(inner)
    for mode, safe in ((0o755, True), (0o777, False), (0o1777, True), (0o775, True)):
        (systemd / "tmp").chmod(mode)  # in the group's hands it is in ours
        assert meeting_folders.is_guarded(inner) == safe
        assert meeting_folders.is_guarded(link) == safe
    assert meeting_folders.is_guarded(Path("/proc/self/root") / inner.relative_to("/"))
    assert not meeting_folders.is_guarded(inner / "nothing")
    inner.joinpath("file").touch()
    assert not meeting_folders.is_guarded(inner / "file")


@as_root
def test_a_folder_is_not_guarded_if_it_is_in_another_users_hands(systemd):
    inner = systemd / "tmp" / "inner"
    inner.mkdir()
    (systemd / "tmp").chmod(0o775)
    os.chown(systemd / "tmp", 0, OTHER)
    assert not meeting_folders.is_guarded(inner)
    os.chown(systemd / "tmp", OTHER, 0)
    assert not meeting_folders.is_guarded(inner)
    link = systemd / "link"
    link.symlink_to("user")
    assert meeting_folders.is_guarded(link)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    assert not meeting_folders.is_guarded(link)


@as_root
def test_what_another_user_left_is_not_removed(systemd):
    theirs = systemd / "tmp" / "recording-theirs"
    theirs.mkdir()
    os.chown(theirs, OTHER, OTHER)
    os.utime(theirs, (1, 1))
    meeting_folders.new_recording(systemd / "tmp")
    assert theirs.exists()
