"""Where jobs and `attach` meet: in a folder that is still there when the user has logged out."""

from __future__ import annotations

import os
import shutil
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
