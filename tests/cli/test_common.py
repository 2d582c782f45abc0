"""Loading for the commands: the progress bar, Ctrl+C, and output whatever the encoding."""

import gzip
import io
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.program import output

from tracetui.cli import common

DATA = Path(__file__).parent.parent / "data"


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


def test_bar_only_on_a_terminal_and_only_when_it_takes_time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(common.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with common.progress_bar() as progress:
        assert progress is not None
        progress(1, 100)
        assert terminal.getvalue() == ""
        now[0] += 1
        progress(50_000_000, 100_000_000)
        assert "############............" in terminal.getvalue()
        assert " 50%" in terminal.getvalue()
        shown = len(terminal.getvalue())
        progress(51_000_000, 100_000_000)  # too soon after the last
        assert len(terminal.getvalue()) == shown
        now[0] += 1
        progress(7, 0)  # a size that is not known
    assert terminal.getvalue().endswith("\r")


def test_no_bar_in_a_pipe(monkeypatch):
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    with common.progress_bar() as progress:
        assert progress is None
    assert pipe.getvalue() == ""


def test_write_replaces_what_the_encoding_lacks():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")  # closes what is below as it goes
    common.write(stream, "█ 5µs")
    assert raw.getvalue() == b"# 5us"


def test_an_unreadable_file_exits_with_one_line(capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        common.load_or_exit(str(tmp_path / "missing.json"))
    assert stop.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tracetui: ")
    assert err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("command", ["summary", "table"])
def test_ctrl_c_while_loading_is_130(command):
    """Standard input stays open: the command waits for the rest of the trace."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tracetui", command, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE
    )  # fmt: skip
    assert child.stdin is not None
    # More than a pipe holds: once this returns, the command is reading.
    child.stdin.write(b'{"traceEvents": [' + b" " * (1 << 20))
    child.stdin.flush()
    os.kill(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert b"Traceback" not in err


def test_strict_warnings_are_for_the_program_that_is_captured(tmp_path):
    """A file of ours that stays open to the end is no matter for the user."""
    trace = tmp_path / "trace.json"
    trace.write_bytes(gzip.decompress((DATA / "llama_train.json.gz").read_bytes()))
    command = [sys.executable, "-W", "error", "-m", "tracetui", "summary", str(trace)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""


SAMPLE = Path(__file__).resolve().parent.parent / "data" / "mlp_eager.json.gz"
PROGRAM = f"{shlex.quote(sys.executable)} -m tracetui"


def run(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", f"{PROGRAM} {command}"], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", [f"summary {SAMPLE}", f"steps --json {SAMPLE}", "--help", "demo --list"])
def test_no_standard_output_is_one_line_of_error(command):
    found = run(f"{command} >&-")
    assert (found.returncode, found.stderr) == (1, "tracetui: standard output: is closed\n")
    assert run(f"{command} >&- 2>&-").returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("command", [f"summary {SAMPLE}", "--version", "capture --help", "cache"])
def test_a_full_disk_is_one_line_of_error(command):
    found = run(f"{command} >/dev/full")
    assert found.returncode == 1
    assert found.stderr == "tracetui: standard output: No space left on device\n"
    assert run(f"{command} 2>/dev/full").returncode == 0


def test_no_standard_error_costs_no_output():
    assert run(f"summary {SAMPLE} 2>&-").stdout == run(f"summary {SAMPLE}").stdout != ""
    assert run("summary /nowhere 2>&-").returncode == 1


def test_no_standard_input():
    assert run(f"summary {SAMPLE} <&-").returncode == 0
    found = run("summary - <&-")
    assert found.returncode == 1
    assert found.stderr.startswith("tracetui: standard input: is ")


@pytest.mark.parametrize("form", ["", "--json", "--markdown"])
def test_an_annotation_is_echoed_harmlessly(form, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]))
    found = output("steps", *form.split(), "--annotation", "\x1b]52;c;aGk=\a\u202e", str(path))
    assert found.returncode == 0
    assert all(c.isprintable() or c == "\n" for c in (found.stdout + found.stderr).decode())
