"""No session uses what the user's has remembered."""

from pathlib import Path

import pytest
from tests.kineto import cpu, trace_of

from tracetui.session.session import Session


@pytest.fixture(autouse=True)
def remembered_here(state: object) -> None:
    pass


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Three threads; the first has two rows."""
    others = (cpu("c", 0, 50) | {"tid": 10}, cpu("d", 0, 60) | {"tid": 11})
    trace_of(tmp_path, cpu("a", 0, 100), cpu("b", 10, 20), *others)
    session = Session.open(tmp_path / "t.json")
    session.lanes.resize(100, 30)
    return session
