"""Findings: rules over a trace, each with its evidence, an explanation, and what to try.

A rule is a function that takes a part of a trace and yields findings; `RULES` lists ours, and other packages
can add some. There is no finding without evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from tracetui.analysis.calls.calls import exclusive_time_of, outermost_ops_of
from tracetui.analysis.calls.launches import launches_of, short_kernels_of
from tracetui.analysis.device_work import work_op_of
from tracetui.analysis.idle.cpu_time import cpu_time_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import lane_calls_of
from tracetui.analysis.idle.kinds import time_by_kind_of
from tracetui.analysis.idle.split import device_causes_of, split_of
from tracetui.analysis.part import Part, fact
from tracetui.analysis.steps.scope import step_windows_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.threads import run_parallel, threads_for
from tracetui.rules import (
    anomaly,
    attention,
    casts,
    communication,
    compiled,
    contiguous,
    copies,
    counters,
    data_loading,
    garbage,
    grids,
    idle_time,
    interpreter_lock,
    kernels,
    memory,
    ops,
    products,
    recording,
    several_gpus,
    slow_calls,
    slow_steps,
    spread,
    start,
    streams,
    waits,
    without_ops,
)
from tracetui.rules.model import SEVERITIES, Finding, Rule
from tracetui.rules.plugins import rules_of_plugins
from tracetui.trace.unknown import idle_known

__all__ = ["RULES", "SEVERITIES", "Finding", "find_findings"]

RULES: dict[str, Rule] = {
    "overhead_bound": idle_time.overhead_bound,
    "little_use": idle_time.little_use,
    "idle_time": idle_time.idle_time,
    "out_of_memory": memory.out_of_memory,
    "allocations": idle_time.allocations,
    "between_kernels": idle_time.between_kernels,
    "compiling": compiled.compiling,
    "initialisation": start.initialisation,
    "cold_start": start.cold_start,
    "slow_steps": slow_steps.slow_steps,
    "profiler_overhead": recording.profiler_overhead,
    "work_in_flight_at_start": start.work_in_flight_at_start,
    "before_the_first_op": start.before_the_first_op,
    "slow_calls": slow_calls.slow_calls,
    "interpreter_lock": interpreter_lock.interpreter_lock,
    "data_loading": data_loading.data_loading,
    "outside_ops": without_ops.outside_ops,
    "slow_ops": without_ops.slow_ops,
    "short_ops": without_ops.short_ops,
    "garbage": garbage.garbage,
    "gpus_in_turn": several_gpus.gpus_in_turn,
    "data_parallel": several_gpus.data_parallel,
    "communication": communication.communication,
    "small_collectives": communication.small_collectives,
    "blocking_launches": waits.blocking_launches,
    "ddp_copies": communication.ddp_copies,
    "blocking_calls": waits.blocking_calls,
    "explicit_waits": waits.explicit_waits,
    "unfused_attention": attention.unfused_attention,
    "hotspot": kernels.hotspot,
    "memory_bound": kernels.memory_bound,
    "small_grids": grids.small_grids,
    "idle_sms": counters.idle_sms,
    "falling_clock": counters.falling_clock,
    "short_calls": kernels.short_calls,
    "fp32_products": products.fp32_products,
    "plain_convolutions": products.plain_convolutions,
    "double_precision": products.double_precision,
    "unaligned_products": products.unaligned_products,
    "optimizer_loop": ops.optimizer_loop,
    "anomaly_detection": anomaly.anomaly_detection,
    "recomputation": ops.recomputation,
    "tensor_loops": ops.tensor_loops,
    "type_conversions": casts.type_conversions,
    "layout_conversions": products.layout_conversions,
    "contiguous_copies": contiguous.contiguous_copies,
    "spread": spread.spread,
    "streams_in_turn": streams.streams_in_turn,
    "copy_before_product": copies.copy_before_product,
    "pageable_memory": copies.pageable_memory,
    "exposed_copies": copies.exposed_copies,
    "slow_copies": copies.slow_copies,
    "compiled_overhead": compiled.compiled_overhead,
    "fused_kernels": compiled.fused_kernels,
    "cuda_graphs": compiled.cuda_graphs,
    "graph_capture": recording.graph_capture,
    "recording_cost": recording.recording_cost,
    "waiting_at_the_end": waits.waiting_at_the_end,
    "look_at_the_children": ops.look_at_the_children,
    "wide_first_step": start.wide_first_step,
    "metadata_only": ops.metadata_only,
    "planned_launches": ops.planned_launches,
}
"""Every rule, by name. Of findings of one severity that are of equal worth, this order decides."""

OF_THE_CPU = ("compiling", "data_loading")
"""The rules that need neither launches nor what the device did: those of a file that is cut off."""
BEFORE_THE_VERDICT = ("metadata_only", "interpreter_lock", "spread")
"""Rules that take long and do not need the verdict, so they are looked at while it is being made."""


@fact
def find_findings(part: Part) -> tuple[Finding, ...]:
    """The findings of all rules on a trace or a part of it: the most severe first, and of these the one with
    the largest share of the time. Later calls are free.
    """
    threads = threads_for(len(part.trace))
    run_parallel([partial(need, part) for need in (gaps_of, cpu_time_of)], threads)
    known = idle_known(part.trace)
    span = sum(gaps.span for gaps in gaps_of(part).devices)

    def worth(finding: Finding) -> tuple[int, float]:
        rank, numbers = SEVERITIES.index(finding.severity), finding.numbers
        if finding.severity == "info":  # these help to read the trace, and have the order of `RULES`
            return rank, 0.0
        if "device_ns" in numbers and span:
            return rank, -numbers["device_ns"] / span
        return rank, -(1 - numbers["busy_share"] if "busy_share" in numbers else numbers.get("share", 0.0))

    rules = {**RULES, **rules_of_plugins(RULES)}
    names = [*rules] if known else [*OF_THE_CPU]
    found: dict[str, list[Finding]] = {}

    def find(some: Sequence[str], *needs: Callable[[Part], object]) -> None:
        facts = [partial(need, part) for need in needs]
        findings = [partial(_of_rule, rules[name], part) for name in some]
        made: list[Any] = run_parallel([*facts, *findings], threads)
        found.update(zip(some, made[len(needs) :], strict=True))

    if known:  # first what most rules need: a thread that waits for it does not help to make it
        find(
            (),
            split_of,
            launches_of,
            exclusive_time_of,
            outermost_ops_of,
            work_op_of,
            step_windows_of,
            time_by_kind_of,
        )
        find(BEFORE_THE_VERDICT, verdict_of, device_causes_of, short_kernels_of)
    find([name for name in names if name not in found])
    part.forget(exclusive_time_of, lane_calls_of, outermost_ops_of)
    return tuple(sorted(chain.from_iterable(found[name] for name in names), key=worth))


def _of_rule(rule: Callable[[Part], Iterator[Finding]], part: Part) -> list[Finding]:
    return list(rule(part))
