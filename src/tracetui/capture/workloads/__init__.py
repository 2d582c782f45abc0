"""The built-in workloads: one module each, imported by the child only.

A module has `build(setup, **options)`, which makes the tensors and returns the function that runs one step;
it raises ValueError, with a line for people, for options that the device cannot do.
The options and their defaults are in `catalog.py`, where they can be read without importing torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Step = Callable[[], object]


@dataclass(frozen=True)
class Setup:
    """What every workload is built with."""

    device: torch.device
    dtype: torch.dtype
    compile: Callable[[Any], Any]
    """torch.compile in the mode asked for, or the identity."""
    steps: int
    """How often the step will be run in all."""
