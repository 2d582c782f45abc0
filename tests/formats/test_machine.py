"""What numpy starts as it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import os
from tracetui.formats.machine import import_numpy
import_numpy()
import numpy
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
@pytest.mark.parametrize("wanted", [None, "1"])
def test_numpy_is_imported_without_threads_of_its_own(wanted: str | None) -> None:
    """What the environment says about them stays as it is."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    if wanted is not None:
        environment["OPENBLAS_NUM_THREADS"] = wanted
    said = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, check=True)
    assert said.stdout.decode().split() == ["1", str(wanted)]
