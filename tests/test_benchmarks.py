"""The benchmarks are run by hand: what they take from the program has to be there all the same."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).resolve().parent.parent / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_what_a_benchmark_imports_is_there(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tracetui"):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
