"""Where running processes and we meet: folders of mode 0700 that belong to this user."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tracetui.capture.live import procfs
from tracetui.capture.live.listener import answered
from tracetui.capture.live.model import AttachError

LONGEST_SOCKET = 107
"""Most bytes in the path of a Unix socket."""
CLIENT = "dynoconfigclient" + "x" * 36
"""As long as the name that Kineto gives its own socket."""
TEMPORARY, OTHERS = Path("/tmp"), (Path("/var/tmp"), Path("/dev/shm"))
SYSTEMD_RUNTIME = Path("/run/user")
SYSTEMD_LINGER = Path("/var/lib/systemd/linger")
OLD_SECONDS = 86400.0
"""What we left behind when we were killed is removed after a day: the job may still write into it."""


def private(folder: Path) -> Path:
    """Make a folder that only this user can enter, or check that it is one. Raises AttachError."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except FileExistsError as error:  # a file, or a link to nothing
        raise AttachError(f"{folder} is not a folder: name another one") from error
    except OSError as error:
        raise AttachError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise AttachError(f"{folder} is not a folder of this user: name another one")
    if found.st_mode & 0o077:
        raise AttachError(f"{folder} is open to other users: chmod 700 {folder}")
    return folder


def is_guarded(folder: Path) -> bool:
    """Whether no other user can put something else in the place of what we make in a folder: this one and all
    above it belong to us or to an administrator, and others cannot rename what is in them, as in /tmp, which
    has the sticky bit."""
    here, top = folder.absolute(), Path("/")
    line = {here, *here.parents}
    try:
        if here.is_relative_to(procfs.PROC):  # in a container: its links cannot be followed from here
            top = Path(*here.parts[:4])
            line = {one for one in line if one.is_relative_to(top)}
        else:
            real = here.resolve()
            line |= {real, *real.parents}
        trusted = {0, os.getuid(), top.stat().st_uid}
        return folder.is_dir() and all(_is_guarded(one, trusted) for one in line)
    except (OSError, RuntimeError):  # RuntimeError: circular links
        return False


def _is_guarded(folder: Path, trusted: set[int]) -> bool:
    found = folder.lstat()
    if found.st_uid not in trusted or stat.S_ISLNK(found.st_mode):
        return found.st_uid in trusted
    theirs = stat.S_IWOTH if found.st_gid in (0, os.getgid()) else stat.S_IWOTH | stat.S_IWGRP
    return not found.st_mode & theirs or bool(found.st_mode & stat.S_ISVTX)


def own_folder(base: Path, name: str) -> Path:
    """A folder in another one that only this user can enter: NAME, or NAME-XXXXXXXX where another user has
    that name, or it is not a folder, or one that others can enter. Raises AttachError."""
    if not is_guarded(base):
        reason = "can be changed by other users" if base.is_dir() else "is not a folder"
        raise AttachError(f"{base} {reason}")
    for folder in (base / name, *sorted(base.glob(f"{name}-????????"))):
        with contextlib.suppress(AttachError):
            found = private(folder)
            if os.access(found, os.W_OK | os.X_OK):
                return found
    try:
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
    except OSError as error:
        raise AttachError(f"{base}: {error.strerror or error}") from error


def _first(wanted: Callable[[Path], Path]) -> Path:
    """What `wanted` finds in a folder of ours, in /tmp if that can be written to and is safe. Raises
    AttachError."""
    named, runtime = (Path(os.environ.get(name, "")) for name in ("TMPDIR", "XDG_RUNTIME_DIR"))
    why = ""
    for base in (TEMPORARY, named, *OTHERS, runtime):  # the last may go when the user logs out
        if not base.is_absolute():
            continue
        try:
            return wanted(own_folder(base, f"tracetui-{os.getuid()}"))
        except AttachError as error:
            why = why or str(error)
    raise AttachError(f"{why}: set TMPDIR to a folder of your own with a short path")


def meeting_root() -> Path:
    """The folder of all folders with sockets: in the user's runtime directory, if that stays, else in /tmp.
    Raises AttachError."""
    for runtime in (os.environ.get("XDG_RUNTIME_DIR", ""), str(SYSTEMD_RUNTIME / str(os.getuid()))):
        with contextlib.suppress(AttachError, OSError):
            if os.path.isabs(runtime) and _stays(Path(runtime)) and os.stat(runtime).st_uid == os.getuid():
                return _short(own_folder(Path(runtime), "tracetui"))
    return _first(lambda root: private(_short(root / "run")))


def _short(root: Path) -> Path:
    """A path, if sockets two folders below can have one. Raises AttachError."""
    if len(os.fsencode(root / "12345678" / CLIENT)) > LONGEST_SOCKET:
        raise AttachError(f"{root}: this path is too long for a socket")
    return root


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
    """The folder that processes write their traces into, if KINETO_ONDEMAND_TRACE_DIR names it; they are
    taken from there. Raises AttachError."""
    return _first(lambda root: root)


def recording_root_of(pid: int) -> tuple[Path, Path]:
    """The same for a process without that variable, as seen from here and as it sees it, which differs in a
    container: newer versions of Kineto then write to /tmp only. Raises AttachError, OSError."""
    here = own_folder(procfs.seen_from_here(pid, str(TEMPORARY)), f"tracetui-{os.getuid()}")
    return here, TEMPORARY / here.name


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
            found = old.lstat()
            aged = time.time() - found.st_mtime > OLD_SECONDS and found.st_uid == os.getuid()
            if aged and not old.is_dir():
                old.unlink()
            elif aged and not any(answered(str(path)) for path in old.glob("dyno*")):
                shutil.rmtree(old, ignore_errors=True)
