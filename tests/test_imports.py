"""What modules import: never themselves by way of others; what only some systems have, where it is used."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest


def test_no_circles():
    """Also none of imports in functions, or of those for types."""
    grimp = pytest.importorskip("grimp", reason="it comes with import-linter, which is not installed")
    graph = grimp.build_graph("tracetui", cache_dir=None)
    TopologicalSorter({m: graph.find_modules_directly_imported_by(m) for m in graph.modules}).prepare()


ROOT = Path(__file__).resolve().parent.parent
POSIX_ONLY = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
OURS_ALONE = {"mutants.py"}  # a script


@pytest.mark.parametrize("folder", ["src/tracetui", "tests"])
def test_no_module_needs_posix_to_be_imported(folder):
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if POSIX_ONLY & {name.split(".")[0] for name in names} and path.name not in OURS_ALONE:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found
