"""The child's code must run where nothing but torch is installed, on Pythons older than tracetui's own."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracetui.capture import child

HERE = Path(child.__file__).parent.parent
FILES = [*HERE.glob("child/*.py"), *HERE.glob("workloads/*.py"), HERE / "marked.py", HERE / "sources.py"]


def imported(tree: ast.AST) -> set[str]:
    """Top-level packages of all absolute imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_torch_and_the_standard_library_only(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    assert imported(tree) - set(sys.stdlib_module_names) <= {"torch", "liger_kernel"}
    if path.name != "__main__.py" and len(tree.body) > 1:
        assert "from __future__ import annotations" in path.read_text()  # X | None is not for 3.9


def test_liger_is_imported_where_it_is_asked_for_only():
    tree = ast.parse((HERE / "workloads" / "mlp.py").read_text())
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not any("liger" in ast.unparse(node) for node in top)


def test_a_fault_of_torchs_own_is_told_apart_from_the_users():
    """Both raise UnicodeDecodeError; what counts is where."""
    from tracetui.capture.child.session import explain

    for file, kind in (
        ("/site-packages/torch/autograd/profiler.py", "torch"),
        ("/home/me/train.py", "workload"),
    ):
        code: dict[str, Any] = {}
        exec(compile("def read():\n    b'\\x94'.decode()\n", file, "exec"), code)
        with pytest.raises(UnicodeDecodeError) as caught:
            code["read"]()
        assert explain(caught.value, {"target": "mlp"})[0] == kind


@pytest.mark.skipif(os.name == "nt", reason="no such signals")
def test_ctrl_c_before_there_is_a_job():
    """It ends at once, without a word."""
    code = (
        "import os, runpy, signal, sys\n"
        "os.read = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
        "runpy.run_path(sys.argv.pop(), run_name='__main__')"
    )
    command = [sys.executable, "-c", code, str(HERE / "child" / "__main__.py")]
    ran = subprocess.run(command, stdin=subprocess.PIPE, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, b"", b"")
