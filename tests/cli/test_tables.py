"""The commands that print: their output as a contract, their exit codes, and how they behave in a pipe."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.program import READING, output

from tracetui.cli.main import main
from tracetui.core.units import parse_duration

DATA = Path(__file__).parent.parent / "data"
EAGER = str(DATA / "mlp_eager.json.gz")
pytestmark = pytest.mark.usefixtures("analysed_once")
SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"


def has_overhead(path: Path) -> bool:
    """Whether the trace beside a recorded table has `overhead` events: PyTorch's own table is wrong there."""
    return b'"cat": "overhead"' in gzip.decompress(path.with_suffix(".json.gz").read_bytes())


TABLES = [p for p in sorted([*DATA.glob("*.txt"), *SAMPLES.glob("*.txt")]) if not has_overhead(p)]
ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def loads(text: str) -> Any:
    def no(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=no)


@pytest.mark.parametrize("path", TABLES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_table_is_pytorchs_text(path):
    result = run("table", str(path.with_suffix(".json.gz")), "--sort", "self_cuda_time_total")
    assert result.exit_code == 0
    assert result.stdout == path.read_text()


def test_there_are_tables_to_compare():
    assert len(TABLES) >= 7


def test_table_differs_only_where_pytorch_is_wrong():
    """With an `Activity Buffer Request`: PyTorch's text has a kernel's time on rows where it does not
    belong."""
    path = DATA / "matmul_add_64_nosched_20.txt"
    ours = run(
        "table", str(path.with_suffix(".json.gz")), "--sort", "self_cuda_time_total"
    ).stdout.splitlines()
    theirs = path.read_text().splitlines()
    names = {line.split()[0] for line in set(ours) ^ set(theirs)}
    assert names == {"aten::mm", "aten::matmul", "matmul_add", "ProfilerStep*", "Activity"}
    assert [line for line in ours if "nvjet" in line] == [line for line in theirs if "nvjet" in line]


@pytest.mark.torch
def test_table_is_the_text_of_a_live_profile(tmp_path):
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as prof:
        for _ in range(3):
            (torch.ones(64, 64) @ torch.ones(64, 64)).relu().sum()
    path = tmp_path / "t.json"
    prof.export_chrome_trace(str(path))
    expected = prof.key_averages().table(sort_by="cpu_time_total", row_limit=7)
    result = run("table", str(path), "--sort", "cpu_time_total", "--limit", "7", "--name-width", "55")
    assert result.stdout == expected


@pytest.mark.parametrize(("runtime", "label", "header"), [
    ("cuda_runtime", "GPU 0", "CUDA"), ("xpu_runtime", "GPU 0", "XPU"), ("hpu_runtime", "HPU 0", "HPU")
])  # fmt: skip
def test_table_names_the_backend_as_pytorch_does(runtime, label, header, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps([
            {"ph": "M", "name": "process_labels", "pid": 0, "args": {"labels": label}},
            {"ph": "X", "name": "run", "cat": runtime, "pid": 9, "tid": 9, "ts": 0, "dur": 1},
            {"ph": "X", "name": "k", "cat": "kernel", "pid": 0, "tid": 7, "ts": 2, "dur": 1}
        ])
    )  # fmt: skip
    text = run("table", str(path)).stdout
    found = ("Self {}", "Self {} %", "{} total", "{} time avg", "Self {} time total: 1.000us")
    assert all(f" {word.format(header)} " in text.replace("\n", " ") for word in found)
    assert header == "CUDA" or "CUDA" not in text


def test_table_json():
    rows = loads(run("table", EAGER, "--json").stdout)
    recorded = json.loads((DATA / "mlp_eager.averages.json").read_text())
    assert len(rows) == len(recorded)
    by_key = {(r["name"], r["device"], r["user_annotation"]): r for r in rows}
    for want in recorded:
        row = by_key[want["key"], "CUDA" if "CUDA" in want["device"] else "CPU", want["user"]]
        assert row["calls"] == want["count"]
        assert row["cpu_total_us"] == pytest.approx(want["cpu_total"], abs=1e-6)
        assert row["self_cpu_us"] == pytest.approx(want["self_cpu"], abs=1e-6)
        assert row["device_total_us"] == pytest.approx(want["device_total"], abs=1e-6)
        assert row["self_device_us"] == pytest.approx(want["self_device"], abs=1e-6)


def test_table_sorts_and_limits():
    rows = loads(run("table", EAGER, "--json", "--sort", "calls", "--limit", "4").stdout)
    assert len(rows) == 4
    calls = [r["calls"] for r in rows]
    assert calls == sorted(calls, reverse=True)
    default = loads(run("table", EAGER, "--json").stdout)
    assert default == sorted(default, key=lambda r: -r["self_device_us"])


@pytest.mark.parametrize("group", ["shape", "annotation", "kernel", "op"])
def test_table_groups(group):
    rows = loads(run("table", EAGER, "--json", "--group", group).stdout)
    assert rows
    assert all("group" in row for row in rows)
    text = run("table", EAGER, "--group", group).stdout.splitlines()
    # PyTorch's own header "CUDA time avg" is one character wider than its column.
    assert len({len(line) for line in text[:-2] if "time avg" not in line}) == 1
    assert run("table", EAGER, "--group", group, "--markdown").exit_code == 0


def test_a_trace_without_modules_says_so():
    assert "no modules: record with with_stack=True" in run("table", EAGER, "--group", "module").stderr
    assert run("table", EAGER, "--group", "op").stderr == ""


def test_table_by_shape_shows_the_shapes():
    rows = loads(run("table", EAGER, "--json", "--group", "shape").stdout)
    shapes = {row["group"] for row in rows if row["name"] == "aten::mm"}
    assert any(shape.startswith("[[") for shape in shapes) or shapes == {""}


def test_scopes_split_the_table():
    whole = loads(run("table", EAGER, "--json").stdout)
    parts = [loads(run("table", EAGER, "--json", "--scope", f"step:{n}").stdout) for n in (2, 3, 4)]
    mm = [next(r for r in rows if r["name"] == "aten::mm") for rows in (whole, *parts)]
    assert mm[0]["calls"] == sum(r["calls"] for r in mm[1:]) == 9
    assert mm[0]["device_total_us"] == pytest.approx(sum(r["device_total_us"] for r in mm[1:]))
    part = loads(run("table", EAGER, "--json", "--scope", "range:0us..400us").stdout)
    assert 0 < len(part) < len(whole)


def test_gaps_json():
    (device,) = loads(run("gaps", EAGER, "--json").stdout)["devices"]
    assert device["device"] == 0
    assert (
        device["busy_ns"] + device["idle_ns"] == device["span_ns"] == device["last_ns"] - device["first_ns"]
    )
    assert device["busy_share"] == pytest.approx(device["busy_ns"] / device["span_ns"], abs=1e-12)
    assert sum(g["duration_ns"] for g in device["gaps"]) == device["idle_ns"]
    for gap in device["gaps"]:
        assert sum(piece["duration_ns"] for piece in gap["pieces"]) == gap["duration_ns"]
        assert gap["pieces"][0]["cause"] == gap["cause"]
    assert sum(c["duration_ns"] for c in device["causes"]) == device["idle_ns"]
    starts = [g["start_ns"] for g in device["gaps"]]
    assert starts == sorted(starts)
    (some,) = loads(run("gaps", EAGER, "--json", "--min", "20us").stdout)["devices"]
    assert some["gaps"] == [g for g in device["gaps"] if g["duration_ns"] >= 20_000]
    assert 0 < len(some["gaps"]) < len(device["gaps"])
    assert some["idle_ns"] == device["idle_ns"]


def test_gaps_of_steps_lie_within_the_whole():
    (whole,) = loads(run("gaps", EAGER, "--json").stdout)["devices"]
    parts = [
        loads(run("gaps", EAGER, "--json", "--scope", f"step:{n}").stdout)["devices"][0] for n in (2, 3, 4)
    ]
    assert sum(p["idle_ns"] for p in parts) == whole["idle_ns"]
    assert sum(p["busy_ns"] for p in parts) == whole["busy_ns"]


def test_steps_json():
    steps = loads(run("steps", EAGER, "--json").stdout)
    assert [s["step"] for s in steps["steps"]] == [2, 3, 4]
    for key in ("busy_ns", "idle_ns", "kernels", "launches", "compute_ns"):
        assert sum([s[key] for s in (*steps["steps"], steps["outside"])]) == steps["whole"][key]


def test_summary_json():
    summary = loads(run("summary", EAGER, "--json").stdout)
    text = json.loads(gzip.decompress(Path(EAGER).read_bytes()))
    assert summary["events"] == len(text["traceEvents"])
    assert summary["slices"] == sum(e["ph"] == "X" for e in text["traceEvents"])
    assert (summary["devices"], summary["steps"], summary["warnings"]) == (1, 3, [])
    assert summary["lanes"] >= 2
    assert summary["span_ns"] > 1_000_000
    assert summary["verdict"] == "mixed"
    assert summary["findings"]
    assert all(f["evidence"] for f in summary["findings"])


def test_summary_of_a_step_and_of_a_range():
    whole = loads(run("summary", EAGER, "--json").stdout)
    parts = [loads(run("summary", EAGER, "--json", "--scope", f"step:{n}").stdout) for n in (2, 3, 4)]
    assert [p["steps"] for p in parts] == [1, 1, 1]
    assert [p["verdict"] for p in parts] == ["compute-bound", "mixed", "mixed"]
    assert sum(p["self_device_us"] for p in parts) == pytest.approx(whole["self_device_us"])
    idle = [sum(c["duration_ns"] for c in p["idle_by_cause"]) for p in (whole, *parts)]
    assert idle[0] == sum(idle[1:])
    part = loads(run("summary", EAGER, "--json", "--scope", "range:400us..700us").stdout)
    (device,) = part["device_list"]
    assert device["span_ns"] == 300_000 == device["busy_ns"] + device["idle_ns"]
    assert part["busy_share"] == pytest.approx(device["busy_share"])


def test_steps_of_a_scope():
    assert [s["step"] for s in loads(run("steps", EAGER, "--json", "--scope", "step:3").stdout)["steps"]] == [
        3
    ]
    calls = loads(run("steps", EAGER, "--json", "--annotation", "mlp_fwd").stdout)
    assert [s["label"] for s in calls["steps"]] == ["mlp_fwd 0", "mlp_fwd 1", "mlp_fwd 2"]


def test_summary_of_a_broken_file_warns(tmp_path):
    path = tmp_path / "cut.json"
    path.write_bytes(gzip.decompress(Path(EAGER).read_bytes())[:40_000])
    result = run("summary", str(path), "--json")
    assert result.exit_code == 0
    assert loads(result.stdout)["warnings"]


@pytest.mark.parametrize(("limit", "code"), [
    ("busy=0.5", 0), ("busy=0.99", 3), ("step-busy=70%", 0), ("step-busy=80%", 3), ("overlap=0.1", 3),
    ("device-busy=0.7", 0)
])  # fmt: skip
def test_fail_under(limit, code):
    result = run("summary", EAGER, "--json", "--fail-under", limit)
    assert result.exit_code == code
    assert loads(result.stdout)["steps"] == 3
    assert bool(result.stderr) == (code != 0)


@pytest.mark.parametrize("args", [
    ("table", EAGER, "--sort", "colour"), ("table", EAGER, "--scope", "step:99"),
    ("table", EAGER, "--scope", "range:5us"), ("table", EAGER, "--scope", "range:5us..5us"),
    ("table", EAGER, "--scope", "step:--json"), ("table", EAGER, "--json", "--markdown"),
    ("table", EAGER, "--limit", "-1"), ("gaps", EAGER, "--min", "five"), ("gaps", EAGER, "--min", "-5us"),
    ("summary", EAGER, "--fail-under", "busy"), ("summary", EAGER, "--fail-under", "busy=2"),
    ("summary", EAGER, "--fail-under", "speed=0.5"), ("table",)
])  # fmt: skip
def test_wrong_usage_is_2(args):
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def bad_files(tmp_path: Path) -> dict[str, Path]:
    files = {name: tmp_path / name for name in ("empty", "png", "json", "list", "text", "gz")}
    files["empty"].write_bytes(b"")
    files["png"].write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    files["json"].write_text('{"a": 1}')
    files["list"].write_text("[1, 2, 3]")
    files["text"].write_text("hello\x1b[31m")
    files["gz"].write_bytes(b"\x1f\x8b\x08\x00not gzip")
    return files | {"missing": tmp_path / "missing\x1b[31m", "directory": tmp_path}


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("bad", ["empty", "png", "json", "text", "gz", "missing", "directory"])
def test_what_is_no_trace_is_one_line_and_1(tmp_path, command, bad):
    result = run(command, str(bad_files(tmp_path)[bad]))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("tracetui: ")
    assert result.stderr.count("\n") == 1
    assert not ESCAPE.search(result.stderr.rstrip("\n"))


HOSTILE = "a\x1b[31m[bold red]b[/bold red]\x07\u202e|`<b>\ud800"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A trace whose names, annotations and devices try to break out."""

    def event(cat: str, name: str, start: int, duration: int, **args: Any) -> dict[str, Any]:
        pid, tid = (0, 7) if cat == "kernel" else (1, 1)
        named = {k.replace("_", " "): v for k, v in args.items()}
        return {
            "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": duration,
            "args": named
        }  # fmt: skip

    events = [
        event("kernel", f"kernel {HOSTILE}", 50, 10, correlation=1, External_id=1),
        event("kernel", f"kernel {HOSTILE}", 90, 10, correlation=2, External_id=1),
        event("cpu_op", f"op {HOSTILE}", 0, 200, External_id=1, Input_Dims=[[HOSTILE]]),
        event("cuda_runtime", f"launch {HOSTILE}", 40, 4, correlation=1),
        event("cuda_runtime", f"launch {HOSTILE}", 80, 4, correlation=2),
        event("user_annotation", "ProfilerStep#0", 0, 300),
        event("user_annotation", f"note {HOSTILE}", 0, 290),
    ]
    path = tmp_path / "hostile\x1b[31m.json"
    path.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": HOSTILE}], "traceEvents": events}))
    return path


@pytest.mark.parametrize("form", [(), ("--json",), ("--markdown",)])
@pytest.mark.parametrize(
    "command", [*((c,) for c in READING), *(("table", "--group", g) for g in ("shape", "annotation", "op"))]
)
def test_no_control_character_gets_out(hostile, command, form):
    result = run(command[0], str(hostile), *command[1:], *form)
    assert result.exit_code == 0, result.output
    for stream in (result.stdout, result.stderr):
        assert not ESCAPE.search(stream)
        assert "\u202e" not in stream
    if form == ("--json",):
        loads(result.stdout)
    elif command == ("table",) and not form:
        assert "[bold red]" in result.stdout  # shown as it is, not read as markup


def test_markdown_tables_keep_their_columns(hostile):
    for command in ("table", "gaps", "steps", "summary"):
        text = run(command, str(hostile), "--markdown").stdout
        lines = [line for line in text.splitlines() if line.startswith("|")]
        assert lines
        bars = [len(re.findall(r"(?<!\\)\|", line)) for line in lines]
        # Consecutive lines belong to one table: equal numbers of unescaped bars.
        tables, current = [], []
        for line in text.splitlines():
            if line.startswith("|"):
                current.append(len(re.findall(r"(?<!\\)\|", line)))
            elif current:
                tables.append(current)
                current = []
        tables.append(current)
        assert sum(map(len, tables)) == len(bars)
        assert all(len(set(table)) <= 1 for table in tables)


@pytest.mark.parametrize("command", ["gaps", "steps", "summary", "findings"])
def test_reports_fit_80_columns(command):
    for path in sorted(DATA.glob("*.json.gz")):
        result = run(command, str(path))
        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) <= 80, path.name
        assert "\x1b" not in result.stdout


def test_standard_input_and_a_narrow_encoding():
    """A trace from a pipe, to a pipe that takes ASCII only."""
    done = output("summary", "-", stdin=Path(EAGER).read_bytes(), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout.isascii()
    assert b"standard input" in done.stdout


def test_a_reader_that_leaves():
    """`tracetui table ... | head -1`: nothing on standard error."""
    path = str(DATA / "llama_train.json.gz")
    command = f"{sys.executable} -m tracetui table {path} --json | head -c 10; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=120, check=False)
    assert done.stderr == b""
    assert done.stdout.startswith(b"[")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_1():
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "tracetui", "table", EAGER]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"tracetui: standard output: ")
    assert done.stderr.count(b"\n") == 1


def test_a_trace_without_rows(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('[{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]')
    result = run("table", str(path))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.count("\n") == 1
    assert loads(run("table", str(path), "--json").stdout) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("color", [True, False])
def test_color_on_a_terminal_unless_no_color(color):
    import pty

    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    environment |= {"TERM": "xterm-256color"} | ({} if color else {"NO_COLOR": "1"})
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "tracetui", "summary", EAGER]
    with subprocess.Popen(command, stdout=slave, stderr=slave, stdin=slave, env=environment) as child:
        os.close(slave)
        out = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            out += part
        assert child.wait(timeout=60) == 0
    os.close(master)
    assert b"Mixed" in out
    assert bool(set(re.findall(rb"\x1b\[([0-9;]*)m", out)) - {b"0", b"1", b"2", b"1;2"}) == color


@pytest.mark.parametrize(("text", "ns"), [
    ("5us", 5_000), ("0", 0), ("1.5ms", 1_500_000), (" 2 s ", 2_000_000_000), ("7", 7_000), ("10ns", 10),
    ("0.0005us", 0), ("3µs", 3_000), ("3μs", 3_000), (".5us", 500), ("5.us", 5_000), ("1,000us", 1_000_000)
])  # fmt: skip
def test_times(text, ns):
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["", "us", "-5us", "5 minutes", "1e9us", "nan", "5us5", "٣us"])
def test_times_that_are_none(text):
    with pytest.raises(ValueError, match="expected a time"):
        parse_duration(text)


def test_help_of_every_command():
    for command in READING:
        result = run(command, "--help")
        assert result.exit_code == 0
        assert click.unstyle(result.output).startswith("Usage: ")


def test_a_step_s_busy_share_is_that_of_its_own_times():
    found = loads(run("steps", str(DATA / "llama_train.json.gz"), "--json").stdout)
    for row in (*found["steps"], found["whole"]):
        assert row["busy_ns"] + row["window_idle_ns"] == row["window_ns"]
        assert row["busy_share"] == pytest.approx(row["busy_ns"] / row["window_ns"])
        assert sum(part["share"] for part in row["parts"]) == pytest.approx(1)
    rest = [sum(row[key] for row in found["steps"]) for key in ("busy_ns", "window_ns")]
    assert found["whole"]["left_out"] == []
    assert found["whole"]["verdict_busy_share"] == pytest.approx(rest[0] / rest[1])
    assert found["whole"]["verdict_busy_share"] != found["whole"]["busy_share"]


def test_a_folder_stands_for_its_only_trace(tmp_path):
    """As that of a capture does; of several one has to be named."""
    folder = tmp_path / "capture"
    folder.mkdir()
    result = run("summary", str(folder))
    assert result.exit_code == 1
    assert result.stderr == f"tracetui: {folder}: is a folder without torch.profiler traces\n"
    (folder / "mlp.json.gz").write_bytes(Path(EAGER).read_bytes())
    (folder / "mlp.meta.json").write_text("{}")
    assert (
        run("summary", str(folder)).stdout.replace("mlp.json", "mlp_eager.json")
        == run("summary", EAGER).stdout
    )
    (folder / "again.json.gz").write_bytes(Path(EAGER).read_bytes())
    result = run("summary", str(folder))
    assert result.exit_code == 1
    assert f"{folder}: is a folder with 2 traces: name one of them, such as {folder}{os.sep}" in result.stderr


def test_no_tables_of_no_gaps(tmp_path):
    path = tmp_path / "t.json"
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 0, "dur": 5},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 9, "dur": 90},
    ]
    for event in events:
        event["args"] = {"correlation": 1}
    path.write_text(json.dumps({"traceEvents": events}))
    assert run("gaps", str(path)).stdout.splitlines()[0] == "GPU 0: span 90.0 µs, idle 0 ns in 0 gaps"
    assert "cause" not in run("gaps", str(path)).stdout
    assert run("gaps", EAGER, "--min", "1s").stdout.endswith("\nGaps of 1.00 s and more: none\n")
