"""The parts of a device's time, for code that needs only their names."""

BUSY_PARTS = ("compute", "communication", "copies")
"""Kernels other than collectives (and, while no kernel runs, memsets and copies within the device's memory);
communication while nothing of that runs; copies from and to elsewhere while neither of these runs."""
CAUSES = (
    "initialisation", "profiler", "sync", "allocation", "dispatch", "host", "launch", "queued",
    "back to back", "unlinked", "graph capture", "in flight", "not recorded",
)  # fmt: skip
"""Why a device stood idle, see `causes`. A cause is an index into this tuple. Pieces are arrays of shape (n,
len(CAUSES)), int64, ns."""
CPU_PARTS = ("ops", "data loading", "communication", "outside ops")
"""The parts for a trace of the CPU alone, see `cpu_verdict`."""
