"""The parts of a device's time, for those who only need their names."""

BUSY_PARTS = ("compute", "communication", "copies")
"""Kernels other than collectives (and, where no kernel runs, memsets and copies within the device's memory);
communication while nothing of that runs; copies from and to elsewhere while neither does."""
CAUSES = (
    "initialisation", "profiler", "sync", "allocation", "dispatch", "host", "launch", "queued",
    "back to back", "unlinked",
)  # fmt: skip
"""Why a device stood idle, see `causes`. A cause is an index into this. Pieces are arrays of shape (n,
len(CAUSES)), int64, ns."""
CPU_PARTS = ("ops", "data loading", "communication", "outside ops")
"""Those of a trace of the CPU alone, see `cpu_verdict`."""
