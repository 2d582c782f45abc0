"""What a loaded trace is to the program: its garbage collector, and what is kept by it."""

import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tracetui.trace import Trace
from tracetui.trace.model import cached_on_trace

Event = dict[str, Any]
Make = Callable[..., Event]
Load = Callable[..., Trace]


def test_a_program_without_a_garbage_collector_stays_so(trace_of, event):
    gc.disable()
    try:
        trace_of([event()])
        assert not gc.isenabled()
    finally:
        gc.enable()
    trace_of([event()])
    assert gc.isenabled()


class Dropping(dict[str, Any]):
    """As if another thread dropped at once what is kept."""

    def __setitem__(self, name: str, value: object) -> None:
        pass


@pytest.mark.parametrize(("derived", "made"), [(Dropping(), 2), ({}, 1)])
def test_what_another_thread_drops_is_returned_all_the_same(derived, made):
    count: list[int] = []

    @cached_on_trace
    def result(trace: Trace) -> None:
        count.append(1)

    trace: Any = SimpleNamespace(derived=derived)
    assert [result(trace), result(trace)] == [None, None]
    assert len(count) == made
