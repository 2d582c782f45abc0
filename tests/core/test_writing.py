"""Files are written whole or not at all; links, pipes and devices stay what they are."""

import contextlib
import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tracetui.capture import files
from tracetui.cli import main
from tracetui.core import writing
from tracetui.core.writing import link_new, make_private, move, written
from tracetui.session import baselines
from tracetui.session.recent import remember
from tracetui.session.state import state_file, write_state
from tracetui.tui.export import ExportError, write_new

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes, links and pipes of Unix")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root: mounts, devices, other users"
)
TRACE = Path(__file__).parent.parent / "data" / "mlp_eager.json.gz"
OTHER = 23456


def put(path: Path | str, data: bytes = b"new", **how: bool) -> None:
    with written(path, **how) as out:
        out.write(data)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def here() -> Iterator[Path]:
    """A folder that every user can enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def another_user() -> Iterator[None]:
    os.setegid(OTHER)
    os.seteuid(OTHER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o026)
    yield
    os.umask(before)


def test_a_new_file_follows_the_umask_and_one_that_was_there_keeps_its_mode(tmp_path, umask):
    file = tmp_path / "x"
    put(file)
    assert (file.read_bytes(), mode(file)) == (b"new", 0o640)
    file.chmod(0o604)
    put(file, b"again")
    assert (file.read_bytes(), mode(file)) == (b"again", 0o604)
    put(file, private=True)
    assert mode(file) == 0o600
    put(tmp_path / "y", private=True)
    assert mode(tmp_path / "y") == 0o600
    put(tmp_path / "z", new=True)
    assert mode(tmp_path / "z") == 0o640


@pytest.mark.parametrize("there", [True, False])
def test_nothing_half_is_left(tmp_path, there):
    file = tmp_path / "x"
    if there:
        file.write_bytes(b"old")

    def broken_off() -> None:
        with written(file) as out:
            out.write(b"n" * 100_000)
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        broken_off()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"old")] * there


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    for name in ("there", "not there"):
        link, target = tmp_path / f"link to {name}", tmp_path / name
        link.symlink_to(name)
        if name == "there":
            target.write_bytes(b"old")
            target.chmod(0o640)
        put(link)
        assert (link.is_symlink(), target.is_symlink(), target.read_bytes()) == (True, False, b"new")
    assert mode(tmp_path / "there") == 0o640
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError):
        put(tmp_path / "circle")


def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to("pipe")
    for path in (pipe, tmp_path / "link"):
        reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
        reader.start()
        put(path)
        reader.join()
    assert got == [b"new", b"new"]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    with pytest.raises(ExportError, match="pipe: nobody reads this pipe"):
        write_new(str(pipe), "x")
    (tmp_path / "new").write_bytes(b"new")
    with pytest.raises(OSError, match="nobody reads"):
        move(tmp_path / "new", pipe)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_descriptor_is_written_to_from_where_it_is(tmp_path):
    with open(tmp_path / "x", "wb+") as file:
        os.write(file.fileno(), b"before ")
        put(f"/dev/fd/{file.fileno()}")
        (tmp_path / "link").symlink_to(f"/dev/fd/{file.fileno()}")
        put(tmp_path / "link")
        os.write(file.fileno(), b" after")
        assert os.path.samestat(os.fstat(file.fileno()), (tmp_path / "x").stat())
    assert (tmp_path / "x").read_bytes() == b"before newnew after"
    with pytest.raises(OSError):
        put("/dev/fd/999")


def test_a_terminal_is_no_file_to_export_to():
    ours, theirs = os.openpty()
    with pytest.raises(ExportError, match="is a terminal"):
        write_new(os.ttyname(theirs), "x")
    os.close(ours)
    os.close(theirs)


def test_a_file_that_must_be_new(tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        put(tmp_path / "x", new=True)

    def no_links(*names: object) -> None:
        raise OSError(errno.EPERM, "no hard links")

    def taken_meanwhile(path: Path) -> None:
        with written(path, new=True) as out:
            out.write(b"new")
            path.write_bytes(b"old")

    for n, refuse in enumerate((os.link, no_links)):
        monkeypatch.setattr(os, "link", refuse)
        with pytest.raises(FileExistsError):
            taken_meanwhile(tmp_path / f"{n}")
        assert (tmp_path / f"{n}").read_bytes() == b"old"
        put(tmp_path / f"new{n}", new=True)
        link_new(tmp_path / f"new{n}", tmp_path / f"second{n}")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0", "1", "new0", "new1", "second0", "second1", "x"
    ]  # fmt: skip


def test_a_file_that_cannot_be_replaced_is_overwritten(tmp_path, monkeypatch):
    """As a mount of one file, which Docker makes."""
    file = tmp_path / "x"
    file.write_bytes(b"what was there was longer")

    def busy(*names: object) -> None:
        raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(os, "replace", busy)
    inode = file.stat().st_ino
    put(file)
    assert (file.read_bytes(), file.stat().st_ino) == (b"new", inode)
    with pytest.raises(OSError, match="busy"):
        put(tmp_path / "y")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_all_names_of_a_file_keep_naming_it(tmp_path):
    file, other = tmp_path / "x", tmp_path / "other"
    file.write_bytes(b"what was there was longer")
    file.chmod(0o640)
    other.hardlink_to(file)
    put(file)
    assert (other.read_bytes(), mode(other), other.samefile(file)) == (b"new", 0o640, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "x"]


def test_an_overwriting_that_is_interrupted_is_brought_to_its_end(tmp_path, monkeypatch):
    source, file, copy = tmp_path / "source", tmp_path / "x", writing._copy
    source.write_bytes(b"new" * 1000)
    file.write_bytes(b"old" * 2000)

    def interrupted(whole: IO[bytes], out: IO[bytes]) -> None:
        monkeypatch.setattr(writing, "_copy", copy)
        out.write(whole.read(100))
        out.flush()
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "_copy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writing._overwrite(source, file)
    assert file.read_bytes() == b"new" * 1000


def test_a_signal_at_any_moment_leaves_nothing_half(tmp_path, monkeypatch):
    opened = os.open

    def stopped(path: str, *how: int) -> int:
        os.close(opened(path, *how))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", stopped)
    with pytest.raises(KeyboardInterrupt):
        put(tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_a_name_that_can_only_be_a_folder_s(tmp_path):
    for name in ("", f"{tmp_path}/x.json/"):
        with pytest.raises(IsADirectoryError):
            put(name)
    assert not list(tmp_path.iterdir())


def test_the_copy_to_standard_output_is_all_that_is_written_there():
    for name in ("-", "/dev/stdout"):
        done = check(name)
        assert len(json.loads(done.stdout)["traceEvents"]) == 243
        assert (done.returncode, "243 events written" in done.stderr) == (0, True)


def test_an_overwriting_that_fails_says_what_it_left(tmp_path, monkeypatch):
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source, file = tmp_path / "source", tmp_path / "x"
    source.write_bytes(b"new and longer")
    file.write_bytes(b"old")
    if hasattr(os, "posix_fallocate"):
        with monkeypatch.context() as patched:
            patched.setattr(os, "posix_fallocate", full)
            with pytest.raises(OSError, match=r"device$"):
                writing._overwrite(source, file)
        assert file.read_bytes() == b"old"
    monkeypatch.setattr(writing, "_copy", full)
    with pytest.raises(OSError, match="No space left on device, and it is no longer whole"):
        writing._overwrite(source, file)


def test_a_moved_file_takes_the_place_of_what_a_link_leads_to(tmp_path):
    (tmp_path / "link").symlink_to("old")
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "old").chmod(0o604)
    (tmp_path / "new").write_bytes(b"new")
    move(tmp_path / "new", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert ((tmp_path / "old").read_bytes(), mode(tmp_path / "old")) == (b"new", 0o604)


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write to every file")
def test_a_read_only_file_is_refused_though_its_folder_would_let_it_be_replaced(tmp_path):
    (tmp_path / "x.json").write_bytes(b"old")
    (tmp_path / "x.json").chmod(0o444)
    done = check(tmp_path / "x.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tracetui: {tmp_path / 'x.json'}: permission denied\n"
    assert (tmp_path / "x.json").read_bytes() == b"old"


@as_root
def test_what_another_user_may_not_write(here):
    file, closed, read_only = here / "closed" / "x", here / "closed", here / "read-only"
    closed.mkdir()
    for path in (file, read_only):
        path.write_bytes(b"old")
        os.chown(path, OTHER, OTHER)
    read_only.chmod(0o444)
    inode = file.stat().st_ino
    with another_user():
        put(file)
        for path in (read_only, closed / "y"):
            with pytest.raises(PermissionError):
                put(path)
    assert (file.read_bytes(), file.stat().st_ino) == (b"new", inode)
    assert read_only.read_bytes() == b"old"
    theirs = here / "theirs"  # it stays theirs, though the folder would let us replace it
    theirs.write_bytes(b"old")
    theirs.chmod(0o666)
    with another_user():
        put(theirs)
    assert (theirs.read_bytes(), theirs.stat().st_uid, mode(theirs)) == (b"new", 0, 0o666)
    os.chown(theirs, OTHER, OTHER)
    put(theirs, b"root's")
    assert (theirs.read_bytes(), theirs.stat().st_uid, theirs.stat().st_gid) == (b"root's", OTHER, OTHER)
    assert sorted(path.name for path in here.iterdir()) == ["closed", "read-only", "theirs"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 KB, on which a device can be made."""
    disk = tmp_path / "small"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", disk], check=False).returncode:
        pytest.skip("cannot mount here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def check(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tracetui", "check", "--no-cache", TRACE, "--repair", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@as_root
def test_a_full_disk_leaves_what_was_there(small):
    (small / "old.json").write_bytes(b"old")
    for name in ("old.json", "new.json"):
        done = check(small / name)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"tracetui: {small / name}: no space left on device\n"
    assert [(path.name, path.read_bytes()) for path in small.iterdir()] == [("old.json", b"old")]
    (small / "old.json").write_bytes(b"o" * 20_000)
    (small.parent / "new").write_bytes(b"n" * 100_000)
    with pytest.raises(OSError, match="No space"):
        writing._overwrite(small.parent / "new", small / "old.json")
    assert (small / "old.json").read_bytes() == b"o" * 20_000


@as_root
def test_a_device_stays_a_device(small):
    os.mknod(small / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    assert check(small / "null").returncode == 0
    move(Path(shutil.copy(TRACE, small)), small / "null")
    assert stat.S_ISCHR((small / "null").lstat().st_mode)


def test_a_copy_to_standard_output_is_alone_there(tmp_path):
    import json

    done = check("/dev/stdout")
    assert len(json.loads(done.stdout)["traceEvents"]) == 243
    assert done.stderr.endswith("/dev/stdout: 243 events written\n")


def test_a_trace_can_be_replaced_by_its_copy(tmp_path):
    trace = tmp_path / "t.json.gz"
    shutil.copyfile(TRACE, trace)
    trace.chmod(0o640)
    with pytest.raises(SystemExit):
        main(["check", "--no-cache", str(trace), "--repair", str(trace)])
    assert mode(trace) == 0o640
    with pytest.raises(SystemExit) as ended:
        main(["check", "--no-cache", str(trace)])
    assert ended.value.code in (0, None)


def test_a_signal_leaves_nothing_half(tmp_path):
    code = (
        "import os, signal\n"
        "from tracetui.formats.chrome_json import clean\n"
        "def stopped(*given):\n"
        f"    with clean.written({str(tmp_path / 'x.json')!r}) as out:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "clean.write_clean = stopped\n"
        "from tracetui.cli import main\n"
        f"main(['check', '--no-cache', {str(TRACE)!r}, '--repair', 'x.json'])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert (done.returncode, list(tmp_path.iterdir())) == (128 + signal.SIGTERM, [])


# What only its owner may read
def test_a_private_folder_closes_what_was_open(tmp_path, umask):
    folder = tmp_path / "a" / "b"
    make_private(folder)
    assert (mode(folder), mode(tmp_path / "a")) == (0o700, 0o751)
    (folder / "x").write_text("")
    folder.chmod(0o755)
    make_private(folder, ours=False)
    assert mode(folder) == 0o755
    (folder / "link").symlink_to(tmp_path / "a")
    make_private(folder)
    assert (mode(folder), mode(folder / "x"), mode(tmp_path / "a")) == (0o700, 0o600, 0o751)


@pytest.mark.parametrize("named", [True, False])
def test_what_is_saved_is_closed_to_others_also_if_an_older_version_saved_it(tmp_path, monkeypatch, named):
    monkeypatch.delenv("TRACETUI_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    root = tmp_path / "tracetui"
    if named:
        monkeypatch.setenv("TRACETUI_STATE", str(root))
    old = root / "marks" / "old.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    (root / "recent.json").write_text("{}")
    for path, open_to_all in ((root, 0o755), (root / "marks", 0o755), (old, 0o644)):
        path.chmod(open_to_all)
    remember(TRACE)
    assert write_state(state_file("lanes", str(TRACE)), {})
    baselines.keep("base", str(TRACE))
    assert mode(root) == (0o755 if named else 0o700)  # what the user named is the user's
    for path in root.rglob("*"):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_a_baseline_in_a_folder_of_its_own_is_for_everybody(tmp_path, umask):
    baselines.keep(str(tmp_path / "base"), str(TRACE))
    assert {mode(path) for path in (tmp_path / "base").iterdir()} == {0o640}


# Captures
def sources(folder: Path) -> dict[str, Path]:
    scratch = folder / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    found = {suffix: scratch / suffix[1:] for suffix in (".json", ".txt")}
    for path in found.values():
        path.write_bytes(b"new")
    return found


def test_a_capture_that_replaces_another_follows_its_links(tmp_path):
    made = sources(tmp_path)
    (tmp_path / "mlp.json").symlink_to("elsewhere.json")
    (tmp_path / "elsewhere.json").write_bytes(b"old")
    (tmp_path / "mlp.json.gz").write_bytes(b"of the capture that is replaced")
    assert files._move_all(made, tmp_path, "mlp", True)
    assert (tmp_path / "mlp.json").is_symlink()
    assert (tmp_path / "elsewhere.json").read_bytes() == (tmp_path / "mlp.txt").read_bytes() == b"new"
    assert not (tmp_path / "mlp.json.gz").exists()


@as_root
def test_a_capture_does_not_replace_what_is_read_only(here):
    made = sources(here)
    for name, allowed in (("mlp.json", 0o666), ("mlp.txt", 0o444)):
        (here / name).write_bytes(b"old")
        (here / name).chmod(allowed)
        os.chown(here / name, OTHER, OTHER)
    with another_user(), pytest.raises(PermissionError):
        files._move_all(made, here, "mlp", True)
    assert (here / "mlp.json").read_bytes() == (here / "mlp.txt").read_bytes() == b"old"
