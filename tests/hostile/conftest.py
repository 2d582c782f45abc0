"""A hostile trace of each kind, written once."""

from pathlib import Path

import pytest
from tests.driver import drive

from .texts import KINDS, write


@pytest.fixture(scope="session", params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def trace_file(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace that holds the text of this kind wherever a trace may hold text."""
    return write(tmp_path_factory.mktemp(kind.replace(" ", "_")), KINDS[kind])


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, read_once: None) -> None:
    """What the app remembers goes to a folder of the test's own, and Pilot does not sleep."""
    drive(monkeypatch)
    monkeypatch.setenv("TRACETUI_STATE", str(tmp_path_factory.mktemp("state")))
