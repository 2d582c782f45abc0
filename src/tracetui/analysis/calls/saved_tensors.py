"""Tensors that the forward pass saves on the host, for the backward pass."""

from __future__ import annotations

import re

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked
from tracetui.analysis.calls.launches import launches_of
from tracetui.analysis.part import Part, fact
from tracetui.analysis.select import name_mask

_TO_DEVICE = re.compile(r"HtoD|HostToDevice|\b(?:M2D|H2D)\b")
FETCHED = 8
"""Of fewer copies nobody can tell what they are for."""
_NODE = re.compile(r"autograd::engine::evaluate_function: (?!ToCopyBackward|CopyBackwards|CopySlices)")
"""The backward pass of an op, other than of a copy."""


@fact
def saves_on_host(part: Part) -> bool:
    """Whether most copies to the device fetch what backward nodes need: the forward pass has saved its
    tensors on the host, as with `torch.autograd.graph.save_on_cpu`."""
    trace, launches = part.trace, launches_of(part)
    mine = name_mask(part.trace, _TO_DEVICE.search)[trace.name[launches.event]]
    event, call = launches.event[mine], launches.launch[mine].astype(np.int64)
    node = name_mask(part.trace, _NODE.match)[trace.name]
    fetched = event[first_marked(trace, trace.parent[call], node) >= 0]
    return len(fetched) >= FETCHED and bool(2 * trace.duration[fetched].sum() > trace.duration[event].sum())
