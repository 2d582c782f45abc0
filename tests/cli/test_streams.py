"""Standard streams that are closed, and arguments with control characters."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.program import output

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
