"""Formats and encodings that are known but not read: one line that says what to do."""

import bz2
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tracetui.formats.foreign import FOREIGN, advice
from tracetui.formats.pftrace.sniff import sniff
from tracetui.trace import TraceError, load

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def varint(value: int) -> bytes:
    made = b""
    while value >= 0x80:
        made, value = made + bytes([value & 0x7F | 0x80]), value >> 7
    return made + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def perfetto() -> bytes:
    """A trace: packets with a sequence id, and a clock snapshot or a track event with a timestamp."""
    clocks = field(6, b"".join(field(1, field(1, n) + field(2, 10**15 + n)) for n in (1, 3, 6)))
    events = [field(8, 10**15 + n) + field(11, field(9, 1) + field(11, 7)) for n in range(40)]
    return b"".join(field(1, field(10, 1) + body) for body in (clocks, *events))


def snapshot() -> bytes:
    """What `torch.cuda.memory._dump_snapshot` writes, without its segments."""
    return pickle.dumps({"segments": [], "device_traces": [[]], "allocator_settings": {}})


def database(tmp_path: Path) -> bytes:
    path = tmp_path / "made.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT)")
    connection.close()
    return path.read_bytes()


def archive(kind: str, content: bytes = b"no trace") -> bytes:
    made = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(made, "w") as packed:
            packed.writestr("a.json", content)
    else:
        with tarfile.open(fileobj=made, mode="w") as tar:
            info = tarfile.TarInfo("a.json")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


SPEEDSCOPE = json.dumps({
    "$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": []}, "profiles": []
}).encode()  # fmt: skip
FILES = {
    "an XPlane profile": b"\x0a\x0d\x08\x01\x12\x09/host:CPU" + b"\x0a\x0f\x08\x02\x12\x0b/device:GPU",
    "a PyTorch execution trace": b'{\n  "schema": "1.1.1-chakra.0.0.4", "pid": 9,\n  "nodes": []}',
    "numbers, perhaps from export_memory": b"[[1690000000123, 0, 512, 3], [1690000000124, 1, 512, 3]]",
    "folded stacks": b"train.py(3): main;nn.Module: Linear_0;aten::mm 120\ntrain.py(3): main 7\n",
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:76\nsize 870601265\n",
    "a V8 CPU profile": b'{"nodes":[{"id":1,"callFrame":{"functionName":"(root)"}}],"samples":[1]}',
    "the printed table of key_averages()": b"%s  %s\n%s Name  Self CPU %%  CPU total\n%s\nmm  9%%  1us"
    % (b"-" * 40, b"-" * 12, b" " * 30, b"-" * 40),
    "a PyTorch memory snapshot": snapshot(),
    "an SQLite database": b"",  # made where there is a folder for it
    "compressed with xz": lzma.compress(b"[]"),
    "compressed with bzip2": bz2.compress(b"[]"),
    "compressed with gzip more than once": gzip.compress(gzip.compress(b"[]")),
    "UTF-16 or UTF-32 text": "[]".encode("utf-16"),
    "compressed with lz4": b"\x04\x22\x4d\x18\x64\x40\xa7" + bytes(9),
    "a 7z archive": b"7z\xbc\xaf\x27\x1c\x00\x04" + bytes(24),
    "a zip archive": archive("zip"),
    "a tar archive": archive("tar"),
    "a speedscope profile": SPEEDSCOPE,
    "an HTML page": b"\n<!DOCTYPE html>\n<html><body>{}</body></html>",
    "Markdown": b"# A report\n\nSome text.\n",
}


@pytest.mark.parametrize("around", ["plain", "gzip", "zstd", "standard input"])
@pytest.mark.parametrize("what", FILES)
def test_a_known_file_is_named(what, around, tmp_path, monkeypatch):
    data = FILES[what] or database(tmp_path)
    path = tmp_path / "trace"
    path.write_bytes({"gzip": gzip.compress, "zstd": zstd.compress}.get(around, bytes)(data))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    stdin = around == "standard input"
    with pytest.raises(TraceError) as caught:
        load("-" if stdin else path)
    message = str(caught.value)
    verb = "holds" if what.startswith(("numbers", "folded")) else "is"
    assert message.startswith(f"{'standard input' if stdin else path}: {verb} {what}")
    assert message.isprintable()
    assert len(message.partition(": ")[2]) < 110


def test_all_of_them_are_tried():
    assert len(FILES) + 2 == len(FOREIGN)  # reports of Nsight and scripts are known by their names


def test_execution_traces_before_chakra(tmp_path):
    path = tmp_path / "et.json"
    path.write_text('{"schema": "1.0.1", "pid": 4, "time": "x", "start_ts": 3, "nodes": []}')
    with pytest.raises(TraceError, match="is a PyTorch execution trace"):
        load(path)


def test_markdown_and_more_by_their_names(tmp_path):
    path = tmp_path / "train.nsys-rep"
    path.write_bytes(b"\x00\x01 a report")
    with pytest.raises(TraceError, match="is an NVIDIA Nsight report"):
        load(path)
    path = tmp_path / "README.md"
    path.write_text("Nothing but words.\n")
    with pytest.raises(TraceError, match="is Markdown"):
        load(path)
    path = tmp_path / "train.py"
    path.write_text("import torch\n")
    with pytest.raises(TraceError, match="is a Python script"):
        load(path)


TRACE = json.dumps(
    {"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": n, "dur": 1} for n in range(9)]},
    indent=1,
).encode()


@pytest.mark.parametrize("data", [
    b"# A report\n\n```json\n" + TRACE + b"\n```\n", b"<html>" + TRACE, archive("zip", TRACE),
    archive("tar", TRACE), b"\n" * 11 + TRACE,
    TRACE.replace(b'{"traceEvents"', b'{"schema": "chakra", "traceEvents"'),
    TRACE.replace(b'{"traceEvents"', b'{"note": "speedscope.app/file-format-schema", "traceEvents"')
], ids=["Markdown", "HTML", "zip", "tar", "new lines", "execution trace", "speedscope"])  # fmt: skip
def test_a_trace_in_strange_company_is_read(data, tmp_path):
    path = tmp_path / "trace.md"
    path.write_bytes(data)
    assert len(load(path)) == 9


def test_only_certain_bytes_are_refused_unread():
    """Nothing that a damaged JSON file may begin with."""
    packets = perfetto()
    assert sniff(packets, "")
    for head in (
        b"",
        b"\n",
        b"\n\n\n\n",
        TRACE,
        b"\n" + TRACE,
        packets[1:],
        packets[: len(packets) // 2].replace(b"\x5a", b"\x5b"),
        b"BZhello",
        b"PK\x03\x04",
        b"\x80\x04\x95junk",
        b"# A",
        b"<html>",
    ):
        assert advice(head, "a.md", certain=True) == ""
        assert not sniff(head, "a.md")
    # The first packets of a longer trace.
    assert sniff(packets[: len(packets) - 3], "")
    # What is read of it may end within the length of a packet.
    assert sniff(field(1, field(10, 1)) + b"\x0a\x80", "")


def test_packets_of_any_length_are_known():
    """Their lengths take one byte up to 127, two up to 16,383, three above."""
    for size in (1, 100, 127, 128, 300, 20_000):
        assert sniff(field(1, field(10, 1) + field(11, b"x" * size)) * 3, ""), size


def test_packets_with_numbers_of_fixed_size_are_known():
    """Of eight bytes, and of four."""
    for kind, size in ((1, 8), (5, 4)):
        number = varint(7 << 3 | kind) + b"\xff" * size
        assert sniff(field(1, field(10, 1) + number + field(8, 5)) * 3, "")
        assert not sniff(field(1, field(10, 1) + number[:-1]) * 3, "")
