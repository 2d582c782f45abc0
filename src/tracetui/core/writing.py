"""How files are written: whole or not at all, and never in the place of something that is no file."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

Name = str | os.PathLike[str]

_MOST_LINKS = 40
"""The system follows no more."""
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
_AS_NOW = os.access in os.supports_effective_ids
_BINARY = getattr(os, "O_BINARY", 0)
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


@contextmanager
def written(
    path: Name, *, new: bool = False, private: bool = False, wait: bool = True
) -> Iterator[IO[bytes]]:
    """A binary file to write to. At the end it takes the place of the file `path`; if anything is raised,
    that is as it was before.

    A symbolic link stays, and what it leads to is written. A file that is replaced keeps its mode and owner;
    a new one gets the mode that the umask says. A file that can be written but not replaced (its folder takes
    no new files, or it is another user's), or that has several names (hard links), is overwritten once all is
    there. Pipes, devices and descriptors
    (/dev/stdout, /dev/fd/N) are written to as it goes.

    `new`: there may be no such file. `private`: only its owner may read it (0600). `wait`: for somebody who
    reads a pipe; without it, terminals are refused, too.

    Raises OSError: FileExistsError for `new`, PermissionError for a file that is read-only, and others.
    """
    path = os.fspath(path)
    stream = _stream(path, wait)
    if stream is not None:
        with open(stream, "wb") as out:
            yield out
        return
    if not os.path.basename(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    where = os.path.realpath(path)
    there = os.path.exists(where)
    if there and new:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    if not private:
        check_writable(path)  # not `where`: the system may refuse to follow another user's link
    folder = os.path.dirname(where)
    if there and not os.access(folder, os.W_OK | os.X_OK, effective_ids=_AS_NOW):
        import tempfile

        folder = tempfile.gettempdir()
    part = os.path.join(folder, f".tracetui-{os.urandom(8).hex()}.part")
    try:  # from here on, or a signal between two lines would leave it
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
            descriptor = os.open(part, flags, 0o600 if there or private else 0o666)
        except OSError as error:
            error.filename = path
            raise
        with open(descriptor, "wb") as out:
            yield out
        if new:
            link_new(part, where)
        else:
            move(part, where, private)
    finally:
        with suppress(OSError):
            os.unlink(part)


def check_writable(path: Name) -> None:
    """Raises PermissionError if there is a file that is read-only, though it could be replaced."""
    if os.path.isfile(path):
        os.close(os.open(path, os.O_WRONLY | _AT_ONCE))


def move(source: Name, target: Name, private: bool = False) -> None:
    """Give a file, which is whole, the name of another; that is replaced, or written to (see `written`).

    `source` may still be there afterwards. Raises OSError.
    """
    if os.path.exists(target) and not os.path.isfile(target):
        with written(target, wait=False) as out, open(source, "rb") as whole:
            _copy(whole, out)
        return
    if not private:
        check_writable(target)
    target = os.path.realpath(target)
    old = os.stat(target) if os.path.exists(target) else None
    try:
        if old is None or private or (old.st_nlink == 1 and _made_alike(source, old)):
            os.replace(source, target)
            return
    except OSError:  # the target is a mount, or its folder takes no new files
        if old is None:
            raise
    _overwrite(source, target)
    if private:
        os.chmod(target, 0o600)


def link_new(source: Name, target: Name) -> None:
    """Give a file a second name. Raises OSError: FileExistsError if there is such a file."""
    try:
        os.link(source, target)  # unlike a rename, it never overwrites
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        with written(target) as out, open(source, "rb") as whole:
            _copy(whole, out)


def make_private(folder: Name, ours: bool = True) -> None:
    """Make a folder that only its owner can enter. `ours`: it is called as we call ours, so if it is there
    and others can enter it, that is ended, and they can read none of its files. Raises OSError."""
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        return
    if not ours or os.name != "posix" or not _is_open(folder, stat.S_ISDIR):
        return
    os.chmod(folder, 0o700)
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_open(entry.path, stat.S_ISREG):
                os.chmod(entry.path, 0o600)


def _is_open(path: Name, is_kind: Callable[[int], bool]) -> bool:
    """Whether others may use a file or folder that belongs to us, and is no link."""
    found = os.lstat(path)
    return is_kind(found.st_mode) and found.st_uid == os.getuid() and found.st_mode & 0o077 != 0


def _stream(path: str, wait: bool) -> int | None:
    """A descriptor of what `path` leads to if that is no file. Raises OSError."""
    named = None
    for _ in range(_MOST_LINKS):
        named = re.fullmatch(rf"/dev/fd/(\d+)|/proc/(?:self|thread-self|{os.getpid()})/fd/(\d+)", path)
        if named is not None or not os.path.islink(path):
            break
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    if named is not None:
        descriptor = os.dup(int(named[1] or named[2]))  # opened anew, a file would be written from its start
    else:
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            return None
        if stat.S_ISREG(mode):
            return None
        try:
            descriptor = os.open(path, os.O_WRONLY | _BINARY | (0 if wait else _AT_ONCE))
        except OSError as error:
            if error.errno == errno.ENXIO and stat.S_ISFIFO(mode):
                error.strerror = "nobody reads this pipe"
            raise
    if not wait and os.isatty(descriptor):
        os.close(descriptor)
        raise OSError(errno.ENOTTY, "is a terminal", path)
    return descriptor


def _made_alike(path: Name, old: os.stat_result) -> bool:
    """Give a file the owner and mode of another; whether that was possible."""
    own = os.stat(path)
    if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.chown(path, old.st_uid, old.st_gid)
        except OSError:
            return False
    os.chmod(path, old.st_mode & 0o777)
    return True


def _copy(whole: IO[bytes], out: IO[bytes]) -> None:
    while part := whole.read(1 << 20):
        out.write(part)


def _overwrite(source: Name, target: Name) -> None:
    """Copy a file over another; if there is no room for it, nothing is overwritten. Raises OSError."""
    descriptor = os.open(target, os.O_WRONLY | _BINARY)
    with open(source, "rb") as whole, open(descriptor, "wb") as out:
        size, before = os.fstat(whole.fileno()).st_size, os.fstat(descriptor).st_size
        try:
            if size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno in _NO_ROOM:
                os.ftruncate(descriptor, before)
                raise
        try:
            _copy(whole, out)
            out.truncate()
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror}, and it is no longer whole", target) from None
        except BaseException:  # Ctrl+C: it is written to its end before that
            for file in whole, out:
                file.seek(0)
            _copy(whole, out)
            out.truncate()
            raise
