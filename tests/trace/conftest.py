"""The small traces of the formats' tests."""

from ..formats.conftest import event, load_in, trace_of

__all__ = ["event", "load_in", "trace_of"]
