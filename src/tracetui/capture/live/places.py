"""Where running processes and we meet: folders of mode 0700 that belong to this user."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from tracetui.capture.live.listener import answered
from tracetui.capture.live.model import AttachError

LONGEST_SOCKET = 107
"""Most bytes in the path of a Unix socket."""
CLIENT = "dynoconfigclient" + "x" * 36
"""As long as the name that Kineto gives its own socket."""
SYSTEMD_RUNTIME = Path("/run/user")
SYSTEMD_LINGER = Path("/var/lib/systemd/linger")
OLD_SECONDS = 86400.0
"""What we left behind when we were killed is removed after a day: the job may still write into it."""


def private(folder: Path) -> Path:
    """Make a folder that only this user can enter, or check that it is one. Raises AttachError."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise AttachError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise AttachError(f"{folder} is not a folder of this user: remove it, or set XDG_RUNTIME_DIR")
    if found.st_mode & 0o077:
        raise AttachError(f"{folder} is open to other users: chmod 700 {folder}")
    return folder


def meeting_root() -> Path:
    """The folder of all folders with sockets: in the user's runtime directory, if that stays, else in /tmp.
    Raises AttachError."""
    for runtime in (os.environ.get("XDG_RUNTIME_DIR", ""), str(SYSTEMD_RUNTIME / str(os.getuid()))):
        root = Path(runtime, "tracetui")
        fits = len(os.fsencode(root / "12345678" / CLIENT)) <= LONGEST_SOCKET
        with contextlib.suppress(AttachError, OSError):
            if runtime and fits and _stays(Path(runtime)) and os.stat(runtime).st_uid == os.getuid():
                return private(root)
    return private(recording_root() / "run")


def _stays(runtime: Path) -> bool:
    """Whether it is still there after its user has logged out, when a job in tmux still runs. systemd removes
    the folders that it makes at the end of the user's last session, unless the user may linger."""
    if not runtime.is_relative_to(SYSTEMD_RUNTIME):
        return True
    import pwd  # not on Windows

    try:
        return (SYSTEMD_LINGER / pwd.getpwuid(os.getuid()).pw_name).exists()
    except KeyError:  # a user without a name, as in containers
        return False


def recording_root() -> Path:
    """The folder that processes write their traces into; they are taken from there. Raises AttachError.

    In /tmp, as newer versions of Kineto write nowhere else unless KINETO_ONDEMAND_TRACE_DIR says so.
    """
    return private(Path(f"/tmp/tracetui-{os.getuid()}"))


def new_meeting() -> Path:
    """A new folder for the processes of one job; old ones are removed. Raises AttachError."""
    root = meeting_root()
    sweep(root, "????????")
    while True:
        folder = root / os.urandom(4).hex()
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder


def new_recording(root: Path) -> Path:
    """A new folder below `root` for one recording; old ones are removed. Raises OSError."""
    sweep(root, "recording-*")
    return Path(tempfile.mkdtemp(prefix="recording-", dir=root))


def sweep(root: Path, names: str) -> None:
    """Remove what was left behind, and the folders of jobs whose processes have all ended."""
    with contextlib.suppress(OSError):
        for old in root.glob(names):
            aged = time.time() - old.lstat().st_mtime > OLD_SECONDS
            if aged and not old.is_dir():
                old.unlink()
            elif aged and not any(answered(str(path)) for path in old.glob("dyno*")):
                shutil.rmtree(old, ignore_errors=True)
