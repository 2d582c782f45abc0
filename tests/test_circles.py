"""No module imports itself by way of others."""

from __future__ import annotations

from graphlib import TopologicalSorter

import pytest


def test_no_circles() -> None:
    """Also none of imports in functions, or of those for types."""
    grimp = pytest.importorskip("grimp", reason="it comes with import-linter, which is not installed")
    graph = grimp.build_graph("tracetui", cache_dir=None)
    TopologicalSorter({m: graph.find_modules_directly_imported_by(m) for m in graph.modules}).prepare()
