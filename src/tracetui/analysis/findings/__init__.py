"""Findings: rules over a trace, each with its evidence, an explanation, and what to try.

A rule is a function from the shared facts to the findings that it yields; `RULES` lists them. A rule that
does not fire says nothing: there is no finding without evidence.
"""

from __future__ import annotations

import numpy as np

from tracetui.analysis.findings import compiled, copies, idle, kernels, ops, start, use
from tracetui.analysis.findings.model import SEVERITIES, Facts, Finding, Rule
from tracetui.analysis.scope import WHOLE, Scope, members
from tracetui.analysis.steps import Steps
from tracetui.trace import DEVICE_WORK, Kind, Trace

__all__ = ["RULES", "SEVERITIES", "Facts", "Finding", "analysable", "find_findings"]

RULES: dict[str, Rule] = {
    "overhead_bound": use.overhead_bound,
    "little_use": use.little_use,
    "cold_start": start.cold_start,
    "profiler_overhead": start.profiler_overhead,
    "before_the_first_op": start.before_the_first_op,
    "data_loading": idle.data_loading,
    "communication": idle.communication,
    "blocking_calls": idle.blocking_calls,
    "hotspot": kernels.hotspot,
    "memory_bound": kernels.memory_bound,
    "short_calls": kernels.short_calls,
    "fp32_products": kernels.fp32_products,
    "unaligned_products": kernels.unaligned_products,
    "spread": kernels.spread,
    "copy_before_product": copies.copy_before_product,
    "pageable_memory": copies.pageable_memory,
    "exposed_copies": copies.exposed_copies,
    "compiled_overhead": compiled.compiled_overhead,
    "fused_kernels": compiled.fused_kernels,
    "cuda_graphs": compiled.cuda_graphs,
    "waiting_at_the_end": idle.waiting_at_the_end,
    "look_at_the_children": ops.look_at_the_children,
    "wide_first_step": start.wide_first_step,
    "metadata_only": ops.metadata_only,
    "planned_launches": ops.planned_launches,
}
"""Every rule, by name, in the order in which findings of one severity are shown."""


def analysable(trace: Trace, scope: Scope | None = None) -> bool:
    """Whether a trace, or a part of it, has what the rules are about: ops, annotations, launches, work."""
    at = np.flatnonzero(trace.is_kind(Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME, *DEVICE_WORK))
    return bool(members(trace, scope, at).any())


def find_findings(
    trace: Trace, scope: Scope | None = None, steps: Steps | None = None
) -> tuple[Finding, ...]:
    """Everything that the rules have to say about a trace or a part of it, the most severe first.

    Args:
        trace: the trace.
        scope: the step, range or viewport to speak of; the whole trace by default.
        steps: what `summarize_steps` gave for the trace's own steps, to save the work.
    """
    facts = Facts(trace, scope or WHOLE, steps)
    found = [finding for rule in RULES.values() for finding in rule(facts)]
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))
