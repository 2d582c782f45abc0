"""`tracetui check`."""

import gzip
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.kineto import cpu, trace_of

from tracetui.cli.check import check_command
from tracetui.cli.main import main
from tracetui.formats.chrome_json.clean import write_clean
from tracetui.trace import TraceError, load

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DATA = Path(__file__).resolve().parent.parent / "data"


def run(*arguments: object, given: bytes | None = None) -> Result:
    return CliRunner().invoke(check_command, [str(a) for a in arguments], input=given)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    text = gzip.decompress((DATA / "mlp_eager.json.gz").read_bytes())
    assert text.count(b'"Ev Idx": 3\n') == 1
    text = text.replace(b'"Ev Idx": 3\n', b'"Ev Idx": inf\n')  # mended
    text = text.replace(b'"ph": "X", "cat": "kernel",', b'"ph": "X", "cat": "ker"nel",', 1)  # lost
    path = tmp_path / "damaged.json"
    path.write_bytes(text)
    return path


def test_a_sound_file():
    result = run(DATA / "mlp_eager.json.gz")
    assert result.exit_code == 0
    assert result.output == "243 events, 140 slices in 4 lanes\nnothing is wrong with this file\n"


@pytest.mark.parametrize(("name", "lines"), [
    ("cuspy/ddp_late_rank1", [
        "missing         48  a launch without its device event (of 308 launches, at the end)",
        "note            48  a GPU event that was launched before the recording"
    ]),
    ("pairs/train_base", [
        "nothing is wrong with this file",
        "note             2  a GPU event that was launched before the recording"
    ])
])  # fmt: skip
def test_work_that_was_not_recorded(name, lines):
    result = run(DATA / f"{name}.json.gz")
    assert result.exit_code == 0
    assert result.output.splitlines()[1:] == lines


def test_a_gpu_that_was_not_recorded(tmp_path):
    path = tmp_path / "t.json"
    calls = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1} for _ in range(3)
    ]
    events = [call | {"ts": 10 * i, "dur": 4, "args": {"correlation": i}} for i, call in enumerate(calls)]
    path.write_text(json.dumps({"traceEvents": events}))
    assert "missing          3  a launch without its device event (all launches)" in run(path).output


def test_a_damaged_file(damaged):
    result = run(damaged)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0].startswith("242 events")
    assert lines[1].split()[:2] == ["lost", "1"]
    assert lines[2].split()[:2] == ["repaired", "1"]
    text = damaged.read_bytes()
    begin = text.rindex(b"{", 0, text.index(b'ker"nel'))
    assert lines[1].endswith(f"first at byte {begin:,}")


def test_only_mended(damaged):
    damaged.write_bytes(damaged.read_bytes().replace(b'ker"nel', b"kernel"))
    result = run(damaged)
    assert result.exit_code == 0
    assert "repaired" in result.output


@pytest.mark.parametrize("name", ["clean.json.gz", "clean.json.zst", "clean.json", "damaged.json"])
def test_repair_writes_what_others_can_read(damaged, name):
    before = load(damaged)
    events = [before.event(i) for i in range(len(before))]
    out = damaged.parent / name
    result = run(damaged, "--repair", out)
    assert result.exit_code == 1
    assert "242 events written" in result.output
    text = {".gz": gzip.decompress, ".zst": zstd.decompress}.get(out.suffix, bytes)(out.read_bytes())
    data = json.loads(text)
    original = json.loads(gzip.decompress((DATA / "mlp_eager.json.gz").read_bytes()))
    assert {k: v for k, v in data.items() if k != "traceEvents"} == {
        k: v for k, v in original.items() if k != "traceEvents"
    }
    assert len([e for e in original["traceEvents"] if e in data["traceEvents"]]) == 241
    after = load(out)
    assert after.notices == ()
    assert [after.event(i) for i in range(len(after))] == events
    assert (after.start == before.start).all()
    assert sorted(p.name for p in damaged.parent.iterdir()) == sorted({"damaged.json", name})


def test_repair_of_standard_input(damaged, tmp_path):
    out = tmp_path / "clean.json.gz"
    assert run("-", "--repair", out, given=damaged.read_bytes()).exit_code == 1
    assert run(out).exit_code == 0


def test_a_truncated_file(tmp_path):
    data = (DATA / "mlp_eager.json.gz").read_bytes()
    path = tmp_path / "cut.json.gz"
    path.write_bytes(data[: len(data) // 2])
    result = run(path, "--repair", tmp_path / "clean.json")
    assert result.exit_code == 1
    assert "lost" in result.output
    assert len(load(tmp_path / "clean.json")) == len(load(path)) > 10


def test_what_cannot_be_done(tmp_path):
    result = run(tmp_path / "missing.json")
    assert result.exit_code == 1
    assert "no such file" in result.output
    result = run(DATA / "mlp_eager.json.gz", "--repair", tmp_path / "missing" / "x.json")
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1
    assert run().exit_code == 2


def test_events_of_another_format_are_not_written(tmp_path):
    class Other:
        """Reads events, but of no JSON."""

    out = tmp_path / "copy.json"
    with pytest.raises(TraceError, match=r"copy\.json: only Chrome traces can be repaired"):
        write_clean(Other(), 0, str(out))  # type: ignore[arg-type]
    assert not out.exists()


def test_a_copy_that_cannot_be_written(tmp_path):
    trace_of(tmp_path, cpu("aten::mm", 10, 10))
    path = str(tmp_path / "t.json")
    result = CliRunner().invoke(main, ["check", path, "--repair", str(tmp_path / "nowhere" / "x.json.gz")])
    assert result.exit_code != 0
    assert "no such file" in result.output.lower()
