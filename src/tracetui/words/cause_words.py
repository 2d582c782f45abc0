"""The words for the causes of idle time, to show to people."""

from __future__ import annotations

from tracetui.analysis.devices import work_of_devices
from tracetui.analysis.idle.causes import Causes, others_work
from tracetui.analysis.idle.parts import CAUSES as CAUSES
from tracetui.analysis.idle.waited_for import UNTIL, cause_variants
from tracetui.analysis.select import has_kind
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64

CAUSE_TEXT = {
    "initialisation": "first use: loading, set-up",
    "profiler": "the profiler itself was at work",
    "sync": "the CPU had waited for the GPU",
    "allocation": "allocating or freeing memory",
    "dispatch": "the CPU was in PyTorch ops",
    "host": "the CPU was outside any op",
    "launch": "the launch was on its way",
    "queued": "queued, but did not start",
    "back to back": "from one kernel to the next",
    "unlinked": "no launch in the trace",
    "graph capture": "a CUDA graph was captured",
    "in flight": "work from before the recording",
    "not recorded": "work may have run: not recorded",
}
"""A few words on each cause, to show to people: at most 32 characters."""
OUTSIDE_BUT_OTHERS = "launching thread outside any op"
"""Used for `host` if another thread of the process was in ops for at least `NAMED` of it."""
FOR_A_GPU = "the CPU had waited for a GPU"
"""Used for `sync` if there are several: the trace does not say which one it was."""
NO_OPS = "the CPU was in no recorded call"
"""Used for `host` in a trace without ops."""
CAUSE_SENTENCES = {
    "initialisation": "the CPU was in a call that is slow when the GPU is first used (creating the context, "
    "loading code, library handles)",
    "profiler": "the profiler itself was at work",
    "sync": "the CPU had waited for the GPU and then had to launch again",
    "allocation": "the CPU was allocating or freeing memory",
    "dispatch": "the CPU was busy inside ops (PyTorch's own overhead, or work that ops do on the CPU)",
    "host": "the CPU was outside any op (Python, data loading, logging)",
    "launch": "the launch was on its way (launch latency)",
    "queued": "the next work was queued, and nothing recorded ran on this GPU (it waited for another "
    "stream, device or process, or for work from before the recording)",
    "back to back": "one kernel followed another",
    "unlinked": "the trace does not say what launched the next work",
    "graph capture": "a CUDA graph was captured, and what is launched meanwhile does not run",
    "in flight": "a stream still had work from before the recording",
    "not recorded": "the GPU may have run work that is not in the file",
}
"""What held things up while a device stood idle, as a part of a sentence."""
_VARIANTS = {
    "queued alone": "the next work was queued, and nothing recorded ran on the GPU (all in one stream: "
    "another process may have had the GPU)",
    "sync of several": f"{FOR_A_GPU} and then had to launch again",
    "sync at the end": "the CPU waited for another GPU, with nothing more to launch here",
    "in graphs": "a CUDA graph waited for its nodes that run on the CPU, or the CPU was outside any op",
    "talking": "the CPU was in ops, most of that in a collective",
    "no ops": "the CPU was in no recorded call (the trace has no ops)",
    "host beside others": "the launching thread was outside any op, while another thread of the process was "
    "in ops for some of it",
}
"""By `cause_variants`."""


def cause_words(trace: Trace, causes: Causes, at: I64 | slice = slice(None)) -> dict[str, str]:
    """`CAUSE_TEXT`, adjusted to what is known about the gaps `at` together."""
    said = CAUSE_TEXT | ({"sync": FOR_A_GPU} if len(work_of_devices(trace)) > 1 else {})
    if not has_kind(trace, Kind.CPU_OP):
        return said | {"host": NO_OPS}
    return said | ({"host": OUTSIDE_BUT_OTHERS} if others_work(causes, at) else {})


def cause_sentence(variant: str) -> str:
    """A cause, or one of its `cause_variants`, as a part of a sentence."""
    if variant.startswith(UNTIL):
        return f"the next work was queued until work on {variant.removeprefix(UNTIL)} was done"
    return _VARIANTS.get(variant) or CAUSE_SENTENCES[variant]


def cause_sentences(trace: Trace, causes: Causes) -> dict[str, str]:
    """Like `cause_words`, as parts of a sentence."""
    variants = cause_variants(trace, causes)
    return {cause: cause_sentence(variants.get(cause, cause)) for cause in CAUSE_SENTENCES}
