"""Where tests find traces: the bundled samples, and a collection beside the checkout where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_traces"
COLLECTION = ROOT.parent / "shared" / "traces"


@pytest.fixture
def samples() -> Path:
    return SAMPLES


@pytest.fixture
def wild() -> Path:
    """The folder of traces from many tools; skips where it is absent."""
    folder = COLLECTION / "wild"
    if not folder.is_dir():
        pytest.skip(f"traces of other tools, under their own licences, are not in {folder}")
    return folder
