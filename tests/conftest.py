"""Where tests find traces: the bundled samples, and a collection beside the checkout where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_traces"
COLLECTION = ROOT.parent / "shared" / "traces"


def collection(*patterns: str) -> list[Path]:
    """Traces of the collection that match, sorted; [] where the collection is absent."""
    found = (path for pattern in patterns for path in COLLECTION.glob(pattern))
    return sorted(path for path in found if ".averages." not in path.name)


@pytest.fixture
def samples() -> Path:
    return SAMPLES


@pytest.fixture
def h200() -> Path:
    """The folder of recorded H200 traces with PyTorch's own tables; skips where it is absent."""
    folder = COLLECTION / "h200"
    if not folder.is_dir():
        pytest.skip("the collection of recorded traces is not beside this checkout")
    return folder


@pytest.fixture
def wild() -> Path:
    """The folder of traces from many tools; skips where it is absent."""
    folder = COLLECTION / "wild"
    if not folder.is_dir():
        pytest.skip("the collection of wild traces is not beside this checkout")
    return folder
