"""Where jobs and `attach` meet: in a folder that is still there when the user has logged out."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracetui.capture.live import places

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Kineto can be asked on Linux only")


@pytest.fixture
def systemd(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime directory as systemd makes it, and folders for who may linger and for recordings."""
    root = places.private(Path(f"/tmp/tp-{tmp_path_factory.getbasetemp().stat().st_ino}"))
    for name in ("user/1", "linger", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(places, "SYSTEMD_RUNTIME", root / "user")
    monkeypatch.setattr(places, "SYSTEMD_LINGER", root / "linger")
    monkeypatch.setattr(places, "recording_root", lambda: places.private(root / "tmp" / "tracetui"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(root / "user/1"))
    yield root
    shutil.rmtree(root)


def test_not_where_systemd_removes_it_at_logout(systemd: Path) -> None:
    assert places.meeting_root() == systemd / "tmp/tracetui/run"
    import pwd  # not on Windows

    me = systemd / "linger" / pwd.getpwuid(os.getuid()).pw_name
    me.touch()
    assert places.meeting_root() == systemd / "user/1/tracetui"


def test_in_a_folder_that_the_user_named(systemd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(systemd / "tmp"))
    assert places.meeting_root() == systemd / "tmp/tracetui"


def test_what_was_left_behind_is_removed_a_day_later(systemd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not the folder of a job that still runs, though nobody answers it, nor the shared one."""
    root = places.meeting_root()
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
    new = places.new_meeting()
    left = {path.name for path in root.iterdir()}
    sockets["0000live"].close()
    assert left == {"0000live", "0000new0", "shared", new.name}

    recordings = systemd / "tmp/tracetui"
    for name in ("recording-old", "recording-new", "other"):
        (recordings / name).mkdir()
    os.utime(recordings / "recording-old", (1, 1))
    os.utime(recordings / "other", (1, 1))
    new = places.new_recording(recordings)
    assert {path.name for path in recordings.iterdir()} == {"run", "recording-new", "other", new.name}
