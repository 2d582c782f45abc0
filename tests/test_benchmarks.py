"""The benchmarks are run by hand: what they take from the program has to be there all the same."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).resolve().parent.parent / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_what_a_benchmark_imports_is_there(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tracetui"):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "benchmarks" / "same_json.py"
TRACE = ROOT / "sample_traces" / "matmul_add_64_warm.json.gz"
ALTERED = """
import tracetui.cli.common as common
emit = common.emit
common.emit = lambda text: emit(text.replace('"cause":', '"reason":'))
"""


def compare(old: str, new: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), old, new, str(TRACE)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_same_installation_is_the_same():
    done = compare(sys.executable, sys.executable)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith(" outputs compared, 0 differences\n")


@pytest.mark.skipif(os.name == "nt", reason="the altered installation is a shell script")
def test_a_difference_is_reported(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(ALTERED)
    altered = tmp_path / "python"
    altered.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    altered.chmod(0o755)
    done = compare(sys.executable, str(altered))
    assert done.returncode == 1
    first = done.stdout.splitlines()[0]
    assert first.startswith(f"{TRACE.name}: gaps --json: $.")
    assert ".cause: " in first
    assert first.endswith(" → -")
    assert not any(": table --json: " in line for line in done.stdout.splitlines())


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for Python is a shell script")
def test_a_python_without_tracetui_is_no_pair(tmp_path):
    (tmp_path / "python").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "python").chmod(0o755)
    assert compare(sys.executable, str(tmp_path / "python")).returncode == 2
