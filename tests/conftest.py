"""Where tests find traces: the bundled samples, and a collection beside the checkout where there is one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# Else every process that a test starts compiles all that it imports, and every worker all tests, each time.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

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
