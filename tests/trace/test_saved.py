"""Traces that are kept: equal to those that are read, and never used when they are not."""

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from platformdirs import user_cache_path
from tests.conftest import SAMPLES

from tracetui.cli.main import main
from tracetui.formats.source import Source, open_source
from tracetui.trace import Trace, in_memory, load, nesting, saved, saved_file
from tracetui.trace.saved_file import _PREFIX, About, Header

NAMES = sorted(path.name.removesuffix(".json.gz") for path in SAMPLES.glob("*.json.gz"))


def settle(path: Path, seconds: float = 100) -> Path:
    """As if the file had been written long ago, as far as that can be said; the change time is now."""
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for two seconds."""
    monkeypatch.setattr("tracetui.formats.source._SETTLED", -(10**12))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A trace with something in every column."""
    return written(tmp_path / "trace.json")


def written(path: Path, sample: str = "train") -> Path:
    """A sample with counters, instants and a flow."""
    path.write_text(with_everything(sample))
    return path


@lru_cache(maxsize=2)
def with_everything(sample: str) -> str:
    document = json.loads(gzip.decompress((SAMPLES / f"{sample}.json.gz").read_bytes()))
    document["traceEvents"] += [
        {"ph": "C", "name": "memory", "pid": 1, "ts": 5 + i, "args": {"bytes": i * 1.5}} for i in range(9)
    ]
    document["traceEvents"] += [
        {"ph": "i", "name": f"mark\u2028{i}", "pid": 1, "tid": 1, "ts": 7, "s": "t"} for i in range(3)
    ]
    one, *_, other = (e for e in document["traceEvents"] if e.get("cat") == "cpu_op")
    for phase, end in (("s", one), ("f", other)):
        document["traceEvents"] += [
            {**end, "args": {}, "ph": phase, "id": 1, "cat": "fwdbwd", "name": "x", "bp": "e"}
        ]
    return json.dumps(document)


def kept_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Where two traces, or parts of them, differ in value or type."""
    if type(one) is not type(other):
        yield f"{where}: {type(one)} is not {type(other)}"
    elif isinstance(one, np.ndarray):
        if one.dtype != other.dtype or not np.array_equal(one, other):
            yield where
    elif isinstance(one, Trace):
        for field in fields(one):
            if field.name not in ("reader", "derived"):
                yield from differences(getattr(one, field.name), getattr(other, field.name), field.name)
    elif hasattr(one, "start") and hasattr(one, "source" if where == "instants" else "series"):
        for name in one.__struct_fields__:
            yield from differences(getattr(one, name), getattr(other, name), name)
    elif one != other or repr(one) != repr(other):
        yield f"{where}: {one!r:.200} is not {other!r:.200}"


def same(one: Trace, other: Trace, events: int = 200) -> None:
    """Assert that two traces are equal in all that can be seen of them."""
    assert list(differences(one, other)) == []
    some = np.linspace(0, len(one) - 1, min(events, len(one))).astype(int)
    assert [one.event(i) for i in some] == [other.event(i) for i in some]
    assert one.reader.top == other.reader.top
    assert list(one.reader.chunks()) == list(other.reader.chunks())


# -- what is kept is what was read
@pytest.mark.parametrize("name", NAMES)
def test_a_kept_sample_equals_the_one_that_was_read(name, cache):
    path = SAMPLES / f"{name}.json.gz"
    fresh = load(path)
    assert saved.save(fresh)
    again = load(path)
    assert again.info.path == str(path)
    assert again.reader is not fresh.reader
    assert again.start.base is not None  # a view of what was copied from the cache
    same(fresh, again)


def test_every_column_and_encoding(path, cache):
    fresh = load(path)
    assert min(len(fresh.instants.start), len(fresh.counters.start), len(fresh.flow_from)) > 0
    texts = {"plain.json": path.read_bytes(), "zipped.json.gz": gzip.compress(path.read_bytes())}
    from tracetui.formats.encodings import zstd

    texts["other.json.zst"] = zstd._library().compress(path.read_bytes())
    for name, text in texts.items():
        one = path.with_name(name)
        one.write_bytes(text)
        fresh = load(one)
        assert saved.save(fresh), name
        assert saved.find(open_source(one)) is not None
        same(fresh, load(one))


def test_what_repairs_and_oddities_leave(path, cache):
    text = path.read_bytes()
    cut = path.with_name("cut.json")
    cut.write_bytes(
        text[: len(text) // 2].replace(b'"dur": 5', b'"dur": -5', 3).replace(b'"cat"', b'"cat', 2)
    )
    fresh = load(cut)
    assert {notice.level for notice in fresh.notices} >= {"lost", "odd"}
    assert saved.save(fresh)
    assert saved.find(open_source(cut)) is not None
    same(fresh, load(cut))


@pytest.mark.parametrize(
    "command", [["summary"], ["gaps"], ["table"], ["steps"], ["findings"], ["efficiency"]]
)
def test_commands_print_the_same(command, path, cache):
    fresh = CliRunner().invoke(main, [*command, str(path), "--json"])
    assert fresh.exit_code == 0
    saved.save(load(path, cache=False))
    read = load(path)
    read.start[:] = 0  # a copy: what is kept does not change with it
    assert CliRunner().invoke(main, [*command, str(path), "--json"]).stdout == fresh.stdout


def test_a_trace_that_was_found_is_not_written_again(path, cache):
    assert saved.save(load(path))
    before = kept_file(cache).stat().st_ino
    assert saved.save(load(path))
    assert kept_file(cache).stat().st_ino == before


def test_values_that_json_has_no_word_for_are_not_kept(path, cache):
    path.write_bytes(path.read_bytes().replace(b'"schemaVersion": 1', b'"schemaVersion": 1, "odd": 1e999', 1))
    fresh = load(path)
    if fresh.reader.top.get("odd") is not None:
        assert not saved.save(fresh)
        assert list(cache.iterdir()) == []
    same(fresh, load(path))


def test_a_bar_of_progress_ends_and_cancels(path, cache):
    from tracetui.trace import Cancelled

    saved.save(load(path))
    seen: list[tuple[int, int]] = []
    load(path, lambda done, total: seen.append((done, total)))
    assert seen == [(path.stat().st_size,) * 2]
    with pytest.raises(Cancelled):
        load(path, lambda done, total: False)


def test_it_says_at_once_that_it_is_there(path, cache):
    from tracetui.trace import Cancelled

    told: list[bool] = []
    assert saved.find(open_source(path), lambda: told.append(True)) is None
    assert told == []
    saved.save(load(path))
    assert saved.find(open_source(path), lambda: told.append(True)) is not None
    assert told == [True]

    def cancel() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        saved.find(open_source(path), cancel)


# -- a cache that lies: never a wrong number, never an error
def mutated(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a file in place, with its times and its inode as they were."""
    status = path.stat()
    path.write_bytes(change(path.read_bytes()))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_another_trace_of_the_same_size_time_and_inode(path, cache):
    saved.save(load(path))
    before = path.stat()
    mutated(path, lambda text: text.replace(b"aten::mm", b"aten::xx"))
    after = path.stat()
    assert (before.st_size, before.st_mtime_ns, before.st_ino) == (
        after.st_size, after.st_mtime_ns, after.st_ino
    )  # fmt: skip
    assert before.st_ctime_ns != after.st_ctime_ns
    assert "aten::xx" in load(path).names


def test_a_change_that_leaves_no_time_is_seen_where_samples_are(path, cache, monkeypatch):
    monkeypatch.setattr(Source, "identity_of", staticmethod(lambda status: (status.st_ino, status.st_size)))
    saved.save(load(path))
    assert saved.find(open_source(path)) is not None
    mutated(path, lambda text: text[:100].replace(b"1", b"2", 1) + text[100:])
    assert saved.find(open_source(path)) is None
    mutated(path, lambda text: text[:-1] + b" ")
    assert saved.find(open_source(path)) is None


def test_a_file_that_has_just_changed_is_not_kept(path, cache, monkeypatch):
    monkeypatch.setattr("tracetui.formats.source._SETTLED", 2_000_000_000)
    assert open_source(path).identity is None
    assert not saved.save(load(path))
    settle(path)  # sets the change time, which nobody can choose
    assert open_source(path).identity is None
    monkeypatch.setattr(time, "time_ns", lambda: int((time.time() + 3) * 1e9))
    assert open_source(path).identity is not None


def test_a_file_that_changes_while_it_is_read_is_not_kept(path, cache):
    fresh = load(path)
    mutated(path, lambda text: text)
    assert not saved.save(fresh)
    path.unlink()
    assert not saved.save(fresh)
    assert not cache.exists()


def test_a_pipe_and_standard_input_are_not_kept(path, cache, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cp", path, pipe]):
        trace = load(pipe)
    assert trace.reader.source.identity is None
    assert not saved.save(trace)
    saved.keep(trace)
    assert not cache.exists()


@pytest.mark.parametrize("what", ["program_of", "FORMAT"])
def test_another_version(what, path, cache, monkeypatch):
    saved.save(load(path))
    monkeypatch.setattr(saved, what, (lambda: "0.0.9 little") if what == "program_of" else 99)
    assert saved.find(open_source(path)) is None
    assert saved.kept_traces()[0][2] == "changed"
    assert saved.save(load(path))  # takes its place
    assert saved.find(open_source(path)) is not None
    assert len(list(cache.iterdir())) == 1


def test_the_program_is_told_by_its_modules(tmp_path, monkeypatch):
    root = tmp_path / "tracetui"
    shutil.copytree(Path(saved.tracetui.__file__).parent, root)
    monkeypatch.setattr(saved.tracetui, "__file__", str(root / "__init__.py"))
    found = [saved.program_of.__wrapped__()]
    with (root / "trace" / "nesting.py").open("a") as file:
        file.write("#")
    found.append(saved.program_of.__wrapped__())
    os.utime(root / "formats" / "chrome_json" / "rows.py", (1, 1))
    found.append(saved.program_of.__wrapped__())
    assert len(set(found)) == 3


def test_a_file_cut_short_anywhere(path, cache):
    saved.save(load(path))
    file = kept_file(cache)
    whole = file.read_bytes()
    header = _PREFIX.unpack(whole[: _PREFIX.size])[1]
    places = {*range(80), header - 1, header, header + 1, len(whole) - 1}
    for size in sorted(places | set(np.linspace(80, len(whole) - 1, 60).astype(int).tolist())):
        file.write_bytes(whole[:size])
        assert saved.find(open_source(path)) is None, size
    for more in (b"\x00", b"x" * 1000):
        file.write_bytes(whole + more)
        assert saved.find(open_source(path)) is None
    file.write_bytes(whole)
    assert saved.find(open_source(path)) is not None


@pytest.mark.parametrize("seed", range(200))
def test_flipped_bits(seed, kept_bytes, cache):
    path, whole, fresh = kept_bytes
    chance = random.Random(seed)
    begin = _PREFIX.unpack(whole[: _PREFIX.size])[1]
    area = [(0, _PREFIX.size), (begin, len(whole)), (64, begin), (64, begin)][seed % 4]
    text = bytearray(whole)
    for _ in range(chance.choice((1, 1, 2, 30))):
        text[chance.randrange(*area)] ^= 1 << chance.randrange(8)
    place(path, bytes(text))
    found = saved.find(open_source(path))
    if found is not None:  # a bit between two columns
        assert not list(differences(fresh, found))


@pytest.fixture(scope="module")
def kept_bytes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, Trace]:
    """A trace's path, the file in which it is kept, and what was read."""
    folder = tmp_path_factory.mktemp("kept")
    path = written(folder / "mlp.json", "mlp_eager")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TRACETUI_NO_CACHE")
        patch.setenv("TRACETUI_CACHE", str(folder / "cache"))
        patch.setattr(saved, "WORTH", 0)
        patch.setattr("tracetui.formats.source._SETTLED", -(10**12))
        fresh = load(path)
        assert saved.save(fresh)
    return path, kept_file(folder / "cache").read_bytes(), fresh


def place(path: Path, text: bytes) -> Path:
    """Put this into the cache for a trace."""
    file = saved.file_of(str(path))
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text)
    return file


def forged(whole: bytes, change: Callable[[dict[str, Any], bytearray], None]) -> bytes:
    """A kept file with a changed header and changed columns, and checksums that are right."""
    _, begin, length, _ = _PREFIX.unpack(whole[: _PREFIX.size])
    header = msgspec.json.decode(whole[begin : begin + length])
    body = bytearray(whole[:begin])
    change(header, body)
    if header["sums"] and all(type(n) is int and 0 <= n <= len(body) for n in header["rows"].values()):
        with suppress(ValueError):
            blocks = [b for p in saved_file._places(header["rows"])[0] for b in p.blocks]
            header["sums"] = [saved_file.crc32(bytes(body[b])) for b in blocks]
    text = msgspec.json.encode(header)
    body[: _PREFIX.size] = _PREFIX.pack(b"tracetui", len(body), len(text), saved_file.crc32(text))
    return bytes(body) + text


def column(header: dict[str, Any], body: bytearray, group: str, name: str) -> np.ndarray:
    """A column of a kept file, to be changed."""
    (found,) = (p for p in saved_file._places(header["rows"])[0] if (p.group, p.name) == (group, name))
    return np.frombuffer(body, dtype=found.dtype, count=header["rows"][group], offset=found.begin)


BAD = {
    "name": (-1, 1 << 30), "lane": (-1, 1 << 30), "depth": (-1, 1 << 30), "parent": (-2, 1 << 30),
    "launch": (-2, 1 << 30), "op": (-2, 1 << 30), "category": (-1, 1 << 14), "kind": (-1, 100),
    "duration": (-1, 1 << 62), "start": (1 << 61, -(1 << 61))
}  # fmt: skip


@pytest.fixture(params=["C", "Python"])
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiled library and without."""
    if request.param == "Python":
        monkeypatch.setattr(nesting, "LIBRARY", None)
    elif nesting.LIBRARY is None:
        pytest.skip("the library of trace/nesting.c is not installed")


@pytest.mark.usefixtures("_either")
@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("where", [0.0, 0.3, 0.999])
def test_indices_that_point_nowhere(name, where, kept_bytes, cache, monkeypatch):
    path, whole, fresh = kept_bytes
    monkeypatch.setattr(saved_file, "_ROWS", 100)  # so that borders between blocks are met, too
    place(path, forged(whole, lambda header, body: None))
    found = saved.find(open_source(path))
    assert found is not None
    assert not list(differences(fresh, found))
    for bad in BAD[name]:
        at = int(where * len(fresh))
        if name == "start" and (at == 0) == (bad < 0):
            continue  # the first may be as early as it likes

        def change(header: dict[str, Any], body: bytearray, at: int = at, bad: int = bad) -> None:
            column(header, body, "slices", name)[at] = bad

        place(path, forged(whole, change))
        assert saved.find(open_source(path)) is None, (name, at, bad)


@pytest.mark.parametrize(("group", "name"), [
    ("flows", "flow_from"), ("flows", "flow_to"), ("flows", "flow_category"), ("instants", "name")
])  # fmt: skip
def test_indices_of_flows_and_instants_that_point_nowhere(group, name, kept_bytes, cache):
    path, whole, _ = kept_bytes
    for least in (False, True):

        def change(header: dict[str, Any], body: bytearray, least: bool = least) -> None:
            values = column(header, body, group, name)
            limits = np.iinfo(values.dtype)
            values[len(values) // 2] = limits.min if least else limits.max

        place(path, forged(whole, change))
        assert saved.find(open_source(path)) is None


@pytest.mark.usefixtures("_either")
def test_parents_that_go_round_in_circles(kept_bytes, cache):
    path, whole, fresh = kept_bytes
    second = fresh.lanes[1].first
    for child, parent in (
        (0, 0),
        (5, 5),
        (5, 6),
        (second, second - 1),
        (second + 3, 0),
        (len(fresh) - 1,) * 2,
    ):

        def change(header: dict[str, Any], body: bytearray, child: int = child, parent: int = parent) -> None:
            column(header, body, "slices", "parent")[child] = parent

        place(path, forged(whole, change))
        assert saved.find(open_source(path)) is None, (child, parent)


def lies() -> dict[str, Callable[[dict[str, Any], bytearray], Any]]:
    """Headers that do not fit."""

    def rows(group: str, count: Any) -> Callable[[dict[str, Any], bytearray], Any]:
        return lambda header, body: header["rows"].update({group: count})

    def lane(**values: Any) -> Callable[[dict[str, Any], bytearray], Any]:
        return lambda header, body: header["lanes"][1].update(values)

    def whole(**values: Any) -> Callable[[dict[str, Any], bytearray], Any]:
        return lambda header, body: header.update(values)

    found = {
        f"rows {group} {count}": rows(group, count) for group in saved_file._COLUMNS
        for count in (-1, 10**9, 1 << 62, 1 << 63, 10**40, 1.5, "1", None)
    }  # fmt: skip
    found |= {f"lane {values}": lane(**values) for values in (
        {"first": 0}, {"first": -1}, {"last": 0}, {"last": 1 << 40}, {"process": 99}, {"process": -1},
        {"device": 1 << 40}, {"device": -2}, {"rows": 0}, {"rows": -5}, {"rows": 1 << 40},
        {"name": "\x1b[2J"}, {"name": 5}, {"tid": "\u202e"},
    )}  # fmt: skip
    found |= {f"{values!r:.40}": whole(**values) for values in (
        {"names": []}, {"names": ["\x1b]0;x\x07"] * 10000}, {"names": [1]}, {"names": None},
        {"categories": []}, {"processes": []}, {"lanes": []}, {"flow_kind": []}, {"sums": []}, {"sums": None},
        {"first_view": [5, 1]}, {"first_view": [0, 10**30]}, {"first_view": [1]}, {"first_view": None},
        {"reader": {}}, {"reader": None}, {"reader": {"bare": False, "chunks": [[0, 5]], "top": {}}},
        {"reader": {"bare": False, "chunks": [{"offset": 0, "length": 1 << 50}], "top": {}}},
        {"reader": {"bare": False, "chunks": [{"offset": -9, "length": 5}], "top": {}}},
        {"notices": [{"kind": "x", "level": "odd", "count": -1, "offset": 0, "text": ""}]},
        {"phases": {"X\x1b": 5}}, {"phases": {"X": "many"}}, {"series_process": [5]}, {"rows": {}},
        {"key": {}}, {"info": None}, {"path": 5}, {"more": 1, "rows": {"slices": 1, "other": 5}},
    )}  # fmt: skip
    found["fewer rows"] = lambda header, body: header["lanes"][0].update({"rows": 1})
    return found


@pytest.mark.parametrize("lie", lies())
def test_headers_that_lie(lie, kept_bytes, cache):
    path, whole, fresh = kept_bytes
    place(path, forged(whole, lies()[lie]))
    assert saved.find(open_source(path)) is None
    assert len(load(path)) == len(fresh)


def test_things_that_are_no_files(path, cache):
    file = saved.file_of(str(path))
    for make in (
        file.mkdir,
        lambda: os.mkfifo(file),
        lambda: file.symlink_to("/dev/zero"),
        lambda: file.touch(),
    ):
        cache.mkdir(exist_ok=True)
        make()
        assert saved.find(open_source(path)) is None
        shutil.rmtree(cache)


def test_files_of_somebody_else(path, cache, monkeypatch):
    saved.save(load(path))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert saved.find(open_source(path)) is None


@pytest.mark.parametrize("after", range(0, 60, 4))
def test_a_full_disk(after, tmp_path, cache, monkeypatch):
    path = written(tmp_path / "trace.json", "mlp_eager")
    fresh = load(path)
    pieces = 0
    real = saved_file.write_at

    def full(*args: Any) -> None:
        nonlocal pieces
        pieces += 1
        if pieces > after:
            raise OSError(28, "No space left on device")
        real(*args)

    monkeypatch.setattr(saved_file, "write_at", full)
    kept = saved.save(fresh)
    assert kept == (pieces <= after)
    assert len(list(cache.iterdir())) == int(kept)
    same(fresh, load(path), 3)


def test_a_folder_that_cannot_be_made(path, cache, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nothing"), Path("x\x00y")):
        monkeypatch.setattr(saved, "cache_folder", lambda folder=folder: folder)
        assert not saved.save(load(path))
        assert len(load(path))


def test_who_may_read_it(path, cache):
    saved.save(load(path))
    assert cache.stat().st_mode & 0o777 == 0o700
    assert kept_file(cache).stat().st_mode & 0o777 == 0o600


WRITER = """
import sys
from tracetui.formats import source
from tracetui.trace import load, saved
saved.WORTH, source._SETTLED = 0, -10**12
trace = load(sys.argv[1], cache=False)
key = saved.Key
for _ in range(15):
    saved._about = lambda file: None  # write it again, each time
    assert saved.save(trace)
"""


def test_two_writers_at_once(path, cache):
    fresh = load(path)
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path)]) for _ in range(2)]
    found = 0
    while any(writer.poll() is None for writer in writers):
        kept = saved.find(open_source(path))
        if kept is not None:
            found += 1
            assert not list(differences(fresh, kept))
    assert [writer.wait() for writer in writers] == [0, 0]
    assert found
    same(fresh, load(path))
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("mapped", [False, True])
def test_deleted_cut_or_overwritten_while_in_use(mapped, path, cache, monkeypatch):
    monkeypatch.setattr(in_memory, "WORTH", 0 if mapped else 1 << 40)
    monkeypatch.setattr(in_memory, "AFTER", 0.1)
    fresh = load(path)
    for harm in (
        lambda file: file.unlink(),
        lambda file: os.truncate(file, 0),
        lambda file: file.write_bytes(bytes(file.stat().st_size)),
    ):
        assert saved.save(fresh)
        kept = load(path)
        assert kept.reader is not fresh.reader
        harm(kept_file(cache))
        same(fresh, kept)


# -- when, how much, and for how long
def test_small_traces_are_not_kept(path, cache, monkeypatch):
    monkeypatch.setattr(saved, "WORTH", path.stat().st_size + 1)
    assert not saved.save(load(path))
    monkeypatch.setattr(saved, "WORTH", path.stat().st_size)
    assert saved.save(load(path))


def test_the_least_recently_used_goes_first(path, cache, monkeypatch):
    paths = [path.with_name(f"{i}.json") for i in range(4)]
    for one in paths:
        shutil.copy(path, one)
    for age, one in enumerate(paths[:3]):
        assert saved.save(load(one))
        settle(saved.file_of(str(one)), 1000 - age)
    size = saved._files(cache)[0].bytes
    monkeypatch.setattr(saved, "limit", lambda: int(3.5 * size))
    load(paths[0])  # used now
    assert saved.save(load(paths[3]))
    assert [saved.file_of(str(one)).exists() for one in paths] == [True, False, True, True]
    monkeypatch.setattr(saved, "limit", lambda: size // 2)
    path.touch()
    assert not saved.save(load(path))  # larger than all may be: the others stay
    assert len(list(cache.iterdir())) == 3


def test_the_limit(cache, monkeypatch):
    cache.mkdir()

    def with_free(free: int) -> int:
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(0, 0, free))
        return saved.limit()

    assert with_free(10**12) == 4 * 10**9
    assert with_free(10**9) == 10**8
    (cache / f"one{saved.SUFFIX}").write_bytes(bytes(50_000))
    assert with_free(10**6) == 105_000  # what they take is theirs already
    monkeypatch.setenv("TRACETUI_CACHE_GB", "20")
    assert with_free(10**12) == 20 * 10**9
    for nonsense in ("much", "-3", "nan", "inf"):
        monkeypatch.setenv("TRACETUI_CACHE_GB", nonsense)
        assert 0 <= with_free(10**12) <= 10**11


def test_what_a_killed_program_left(path, cache):
    cache.mkdir()
    old, new = (
        settle(cache / "old.part", 1e5) if (cache / "old.part").touch() is None else None,
        cache / "new.part",
    )
    new.touch()
    saved.save(load(path))
    assert not old.exists()
    assert new.exists()


def test_a_writing_that_is_stopped_leaves_nothing(path, cache):
    assert not saved.save(load(path), lambda: False)
    assert list(cache.iterdir()) == []


def test_the_end_of_the_program_gives_up_after_a_second(path, cache):
    script = f"""
import time
from tracetui.formats import source
from tracetui.trace import load, saved, saved_file
saved.WORTH, source._SETTLED, saved._PATIENCE = 0, -10**12, 0.1
real = saved_file.write_at
saved_file.write_at = lambda *args: (time.sleep(0.05), real(*args))  # a slow disk
trace = load({str(path)!r})
saved.keep(trace)
time.sleep(0.1)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert list(cache.iterdir()) == []  # not even an unfinished file
    assert run.stderr == ""


def test_a_viewer_in_a_browser_writes_nothing(path, cache, monkeypatch):
    monkeypatch.setenv("TRACETUI_SERVED", "1")
    assert not saved.save(load(path))


def test_without_the_cache(path, cache, monkeypatch):
    saved.save(load(path))
    assert load(path, cache=False).start.base is None
    monkeypatch.setenv("TRACETUI_NO_CACHE", "1")
    assert saved.find(open_source(path)) is None
    assert not saved.save(load(path))


def test_the_end_of_a_command_waits_for_it(path, cache):
    imports = "from tracetui.cli import main; from tracetui.formats import source;"
    imports += "from tracetui.trace import saved;"
    # Of any size, and without waiting; but on a busy machine it may take longer than it usually is given.
    script = imports + "saved.WORTH, source._SETTLED, saved._PATIENCE = 0, -10**12, 60; main()"
    printed = [
        subprocess.run(
            [sys.executable, "-c", script, "summary", path, *more], capture_output=True, check=True
        ) for more in (["--no-cache"], [], [])
    ]  # fmt: skip
    assert len({run.stdout for run in printed}) == 1
    assert saved.find(open_source(path)) is not None


async def test_the_app_keeps_what_it_shows(path, cache, monkeypatch):
    from tracetui.tui import loading

    monkeypatch.setattr(loading, "AFTER", 0.0)
    loading.LoadTask(path).start().ended.result(60)
    for thread in saved._threads:
        thread.join(60)
    assert saved.find(open_source(path)) is not None


def test_a_header_says_which_trace_it_is(path, cache):
    saved.save(load(path))
    with kept_file(cache).open("rb", buffering=0) as file:
        known = saved_file.about(file)
    assert type(known) is About
    assert known.path == str(path.resolve())
    assert set(About.__struct_fields__) < set(Header.__struct_fields__)


def test_where_they_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("TRACETUI_CACHE", str(tmp_path / "mine"))
    assert saved.cache_folder() == tmp_path / "mine"
    theirs = user_cache_path("tracetui", appauthor=False) / "traces"
    monkeypatch.setenv("TRACETUI_CACHE", "")
    assert saved.cache_folder() == theirs
    monkeypatch.delenv("TRACETUI_CACHE")
    assert saved.cache_folder() == theirs


def test_a_text_that_would_not_be_shown_as_it_is():
    for text, safe in (("aten::mm", True), ("é计", True), ("a\x1b[0m", False), ("e" + "\u0301" * 300, False)):
        assert saved_file.is_safe(text) is safe
