"""Rules on the kernels themselves: what dominates, what is too short, what varies, what is in fp32."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.ancestors import op_around
from tracetui.analysis.device_work import has_tf32, op_behind
from tracetui.analysis.efficiency import efficiency, peak_of, shapes_recorded
from tracetui.analysis.exposed_time import host_copies
from tracetui.analysis.findings.anomaly import FIRST_TURN_OFF, anomaly_detection
from tracetui.analysis.findings.attention import outside_attention
from tracetui.analysis.findings.compiled import compile_phases
from tracetui.analysis.findings.grids import SPINS, small_grids_of
from tracetui.analysis.findings.model import (
    FUSED_SHARE,
    MUCH_IDLE,
    OF_ALL,
    SMALL_COPIES,
    WAITED_SHARE,
    WORK_TIME,
    Finding,
    can_be_fused,
    first_of,
    graded,
    graded_kernels,
    longest_first,
    longest_of_each,
    smi,
    waited_share,
)
from tracetui.analysis.findings.waits import blocking_launches, no_graphs_yet
from tracetui.analysis.flops import counted, work_of
from tracetui.analysis.gaps import busy_union
from tracetui.analysis.kernel_names import short_name
from tracetui.analysis.kernels.gemm import UNALIGNED
from tracetui.analysis.kernels.model import KernelName
from tracetui.analysis.results import Results
from tracetui.analysis.scope import launch_times, step_of
from tracetui.analysis.select import by_name
from tracetui.analysis.sums import sum_into
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64
from tracetui.units import duration, plural, rate, share, such, verb

HOTSPOT_SHARE = 0.5
HOTSPOT_RATIO = 1.5
"""It takes as many times as long as what comes next."""
RATED = 200
"""Read the shapes of at most this many calls to rate a hotspot."""
MEMORY_SHARE = 0.5
BUSY_SHARE = 0.8
NEAR_PEAK = 0.6
SHORT_EVENTS = 100
SHORT_SHARE = 0.3
SPREAD_RATIO = 1.3
SPREAD_NS = 10_000
GRIDS_READ = 64
"""Kernels of a step whose grids are compared with those of another."""
SPREAD_SHARE = 0.02
FAR_RATIO = 10
FAR_SHARE = 0.05
"""Of the kernel time: what calls of `FAR_RATIO` times the usual take beyond it, to be told by itself."""
FP32_SHARE = 0.05
# The default: https://pytorch.org/docs/stable/notes/cuda.html
_CHANNELS = "numbers of channels that are multiples of 8, and memory_format=torch.channels_last."
_FP32_CONVOLUTIONS = (
    "Convolutions may use TF32 unless torch.backends.cudnn.allow_tf32 = False: look for that. Otherwise, the "
    f"library chose no such kernel for these shapes: try {_CHANNELS}"
)
_PLAIN_CONVOLUTIONS = (
    f"Use {_CHANNELS} torch.backends.cudnn.benchmark=True lets the library measure its kernels and pick the "
    "fastest. A convolution whose patches do not overlap is a matmul: cut the input into patches and call a "
    "Linear layer."
)
_RNN = re.compile(r"aten::_?(?:cudnn|miopen)_rnn")
RNN_ADVICE = (
    "The library launches kernels for each time step of a recurrent layer: larger batches lengthen them, "
    "torch.cuda.graph replays them with one launch. In fp16 a single layer can run as one persistent kernel."
)
UNALIGNED_SHARE = 0.05
LAYOUT_SHARE = 0.05
_CHANGES_LAYOUT = re.compile(r"(?i)nchwToNhwc|nhwcToNchw|batched_transpose_\d+x\d+")
"""cuDNN's names, and MIOpen's."""


def hotspot(results: Results) -> Iterator[Finding]:
    """One name takes most of the device's work, on a device that has something to do."""
    trace, work = results.trace, results.work()
    names, which = by_name(trace, work)
    alike = _alike(results, names)
    which = alike[which]
    if len(np.unique(alike)) < 2 or results.busy_share is None or results.busy_share < 0.3:
        return
    time = sum_into(which, trace.duration[work], len(names))
    top = int(np.argmax(time))
    part = int(time[top]) / results.work_time if results.work_time else 0.0
    if part < HOTSPOT_SHARE or time[top] < HOTSPOT_RATIO * np.sort(time)[-2]:
        return
    at = work[which == top]
    name = results.decoded(int(at[0]))
    # These have rules of their own.
    own = np.isin(names[top], small_grids_of(results).names)
    if own or name.kind == "collective" or host_copies(trace, at[:1])[0] or _on_plain_units(name):
        return
    at = longest_first(trace, at)
    mean = time[top] / len(at)
    numbers = {"share": part, "calls": float(len(at)), "device_ns": float(time[top])}
    reached = ""
    row = next(iter(efficiency(trace, at[:RATED]).kernels), None)
    if row is not None and row.tflops is not None:
        numbers["tflops"] = row.tflops
        reached = f"It reaches {rate(row.tflops * 1e12, 'FLOP/s')}"
        if row.compute_share is not None:
            numbers["compute_share"] = row.compute_share
            reached += f", {share(row.compute_share)} of the peak for its type"
        if row.memory_share is not None and row.gbps is not None and row.memory_share >= NEAR_PEAK:
            numbers["memory_share"] = row.memory_share
            reached += (
                f", and moves at least {rate(row.gbps * 1e9, 'B/s')}, {share(row.memory_share)} of the "
            )
            reached += "memory's bandwidth"
        reached += ". "
    whose = "the GPU's" if len(results.gaps().devices) == 1 else "the GPUs'"
    instances = int(np.count_nonzero(alike == top))
    calls = f"{plural(len(at), 'call')} of {duration(mean)} on average, {duration(time[top])}"
    calls = calls if len(at) > 1 else f"1 call, {duration(mean)}"
    of_them = f", by {instances} instances of one template" if instances > 1 else ""
    yield Finding(
        "hotspot",
        "low" if name.kind in ("gemm", "conv", "attention") else "medium",
        f"{name.short} takes {share(part)} of {WORK_TIME}",
        f"{calls} in all{of_them}. {reached}All {whose} other work together takes "
        f"{duration(results.work_time - time[top])}.",
        "It only waits, as torch.cuda._sleep does: leave it out of what you measure."
        if SPINS in trace.name_of(int(at[0]))
        else _JOINS
        if "CatArray" in trace.name_of(int(at[0]))
        else _hotspot_advice(numbers, shapes_recorded(trace) or not _shapes_would_tell(results, at, name)),
        first_of(at),
        numbers,
    )


_COUNTED = ("gemm", "conv", "attention", "elementwise", "copy")
"""The kinds of kernels whose work recorded shapes tell (`flops`)."""


def _alike(results: Results, names: I64) -> I64:
    """For each of the names the place of the first that reads the same, of those that multiply: instances of
    one template, which differ in layouts and the like."""
    decoded, first = results.kernel_names(), dict[str, int]()
    each = [decoded[name] for name in names.tolist()]
    return np.array(
        [
            first.setdefault(name.short, i) if name.kind in ("gemm", "conv", "attention") else i
            for i, name in enumerate(each)
        ],
        dtype=np.int64,
    )


def _shapes_would_tell(results: Results, at: I64, name: KernelName) -> bool:
    """Whether recorded shapes would say how much work kernels of one name do: not of a graph's, which have no
    op, nor of those that the compiler wrote."""
    trace = results.trace
    if name.kind not in _COUNTED:
        return False
    op, launch = op_behind(trace, at), trace.launch[at]
    if (op >= 0).any():
        return bool(results.named(counted)[trace.name[op[op >= 0]]].any())
    graphs = results.named(lambda other: "GraphLaunch" in other)
    return not graphs[trace.name[launch[launch >= 0]]].any()


_JOINS = (
    "Each call copies everything it joins: allocate the result once, at full size, and write the parts into "
    "it (a cache that grows by torch.cat is copied as a whole each time)."
)


def _hotspot_advice(numbers: dict[str, float], shapes: bool) -> str:
    reached = numbers.get("compute_share")
    if "memory_share" in numbers:
        return "Memory limits it: larger batches reuse what it reads, a narrower type reads less."
    if reached is None:
        before = "Compare its rate with the GPU's peak before you tune it"
        return f"{before}." if shapes else f"{before}: record_shapes=True shows how much work it does."
    if reached >= NEAR_PEAK:
        return "There is little left to gain in the kernel itself: give it less work, or a narrower type."
    return "It is well below the peak: check the shape of its work (too small, unaligned, or too narrow?)."


_GATHERING = (
    "Gather and scatter less: a narrower type, indices in order, or an op that reduces what it gathers at "
    "once (torch.sparse.mm, torch.segment_reduce, embedding_bag)."
)


def memory_bound(results: Results) -> Iterator[Finding]:
    """A busy device that mostly runs kernels which read and write memory and compute next to nothing."""
    trace = results.trace
    if (results.busy_share or 0.0) < BUSY_SHARE:
        return
    indexing = results.work_of_kind("index")
    at = np.union1d(
        results.work_of_kind("elementwise", "copy", "softmax", "norm", "reduction", "memcpy"), indexing
    )
    at = outside_attention(results, at[~host_copies(trace, at)])
    at = at[~np.isin(trace.name[at], small_grids_of(results).names)]  # few blocks limit them, not memory
    time = int(trace.duration[at].sum())
    if not time or time < MEMORY_SHARE * results.work_time:
        return
    names, which = by_name(trace, at)
    if len(names) < 2:  # a hotspot
        return
    spent = sum_into(which, trace.duration[at], len(names))
    largest = np.argsort(-spent, kind="stable")
    short = results.kernel_names()
    listed = ", ".join(f"{short[int(names[i])].short} ({duration(spent[i])})" for i in largest[:4])
    gathered = int(trace.duration[np.intersect1d(at, indexing)].sum())
    yield Finding(
        "memory_bound",
        "medium",
        f"{share(time / results.work_time)} of {WORK_TIME} goes to kernels that mostly read and write memory",
        f"Elementwise work, {'gathers, scatters, ' if gathered else ''}copies, norms and reductions "
        f"(by name): {listed}. Each reads its inputs "
        "from the GPU's memory, writes its result back, and does almost no arithmetic on the way.",
        _GATHERING
        if 2 * gathered > time
        else "Fuse them: torch.compile for chains of elementwise ops, fused norms and losses. Intermediate "
        "results then never go to memory.",
        first_of(longest_of_each(trace, at, names[largest])),
        {"share": time / results.work_time, "device_ns": float(time)},
    )


def launched_by_rnn(results: Results) -> bool:
    """Whether a library's recurrent layers launch most of the kernels, copies and memsets."""
    trace, launch = results.trace, results.launches().launch
    op = op_around(trace, launch)
    rnn = results.named(lambda name: _RNN.match(name) is not None)
    return bool(2 * np.count_nonzero(rnn[trace.name[op[op >= 0]]]) > len(launch))


def short_calls(results: Results) -> Iterator[Finding]:
    """Very many kernels that are over before their launch would be."""
    trace, launches = results.trace, results.launches()
    # Launches that the device never waits for cost nothing.
    if (waited := waited_share(results)) < WAITED_SHARE:
        return
    short = results.short_kernels()
    if short.events < SHORT_EVENTS or short.events < SHORT_SHARE * short.of:
        return
    if any(blocking_launches(results)):  # the time of a launch is that of its kernel
        return
    name = short.names[0]
    mask = results.named(lambda other: other == name)
    mine = short.at[mask[trace.name[launches.event[short.at]]]]
    # What torch.compile tries out is not the program's.
    compiler = busy_union(trace, compile_phases(results))
    tried = compiler.touching(trace.start[launches.launch], trace.start[launches.launch] + 1)
    if 2 * int(np.count_nonzero(tried)) > len(launches):
        return
    at = launches.event[mine][np.argsort(-launches.cost[mine], kind="stable")]
    kernel = results.decoded(int(at[0]))
    device_time, launch_time = int(short.device_time.sum()), int(short.launch_time.sum())
    small, quick = short.at, trace.duration[launches.event] < launches.cost
    op = op_behind(trace, launches.event[small])
    ops, calls = np.unique(trace.name[op[op >= 0]], return_counts=True)
    order = [i for i in np.argsort(-calls, kind="stable")[:3] if "::" in trace.names[int(ops[i])]]
    most = [f"{short_name(trace.names[int(ops[i])], 'cpu_op')} ({calls[i]:,})" for i in order]
    under = f" The ops that launch most of them: {', '.join(most)}." if most else ""
    begun = trace.start[launches.launch[small]]
    updates = np.count_nonzero(can_be_fused(results).touching(begun, begun + 1)) >= FUSED_SHARE * len(small)
    usual = float(np.median(launches.cost))  # first launches are far longer, and say nothing of the others
    instead = no_graphs_yet(results)
    graphs = ", CUDA graphs make launches cheap" if instead is None else ""
    yield Finding(
        "short_calls",
        "medium" if waited >= MUCH_IDLE else "low",
        f"{short.events:,} of {short.of:,} kernels, copies and memsets take less time than their launch",
        f"They keep the GPU busy for {duration(device_time)}; a launch takes the CPU {duration(usual)} "
        f"(median). Most frequent: {kernel.short}, {plural(int(short.count[0]), 'call')} of "
        f"{duration(short.device_time[0] / max(1, short.count[0]))} on average.{under}",
        FIRST_TURN_OFF
        if any(anomaly_detection(results))
        else SMALL_COPIES
        if 2 * np.count_nonzero(host_copies(trace, launches.event[quick])) > np.count_nonzero(quick)
        else RNN_ADVICE
        if launched_by_rnn(results)
        else "Do more per kernel: torch.compile fuses elementwise chains, larger batches lengthen every "
        f"kernel{graphs}"
        + ("; a fused optimizer handles many tensors per kernel." if updates else ".")
        + (instead or ""),
        first_of(at),
        {"short": float(short.events), "of": float(short.of), "launch_ns": float(launch_time)},
    )


def layout_conversions(results: Results) -> Iterator[Finding]:
    """Convolutions between which the layout of images is changed, from NCHW to NHWC and back."""
    trace = results.trace
    names = results.kernel_names().items()
    changing = [i for i, name in names if _CHANGES_LAYOUT.search(name.name[:200])]
    at = results.work()[np.isin(trace.name[results.work()], changing)]
    time, convolutions = int(trace.duration[at].sum()), results.work_of_kind("conv")
    if not len(convolutions) or not time or time < LAYOUT_SHARE * results.work_time:
        return
    part = share(time / results.work_time)
    longest = longest_first(trace, at)
    line, flat, deep = (results.named(f"aten::conv{n}d".__eq__).any() for n in (1, 2, 3))
    advice = (
        "Keep the model and its inputs in NHWC: "
        f"model.to(memory_format=torch.channels_last{'_3d' if deep and not flat else ''}), and the same for "
        "the input."
    )
    if line and not flat and not deep:
        advice = (
            "torch.channels_last is for tensors of 4 dimensions: a Conv1d needs no conversions if you write "
            "it as a Conv2d of height 1, with its input in that format."
        )
    yield Finding(
        "layout_conversions",
        graded_kernels(results, time),
        f"Conversions between NCHW and NHWC take {part} of {WORK_TIME}",
        f"{such(len(at), 'kernel', results.decoded(int(longest[0])).short)} "
        f"{verb(len(at), 'take')} {duration(time)}. They copy a tensor into the layout that a convolution "
        "wants, and back: fast convolutions mostly take NHWC, PyTorch's default is NCHW.",
        advice,
        first_of(longest),
        {"share": time / results.work_time, "device_ns": float(time), "kernels": float(len(at))},
    )


def spread(results: Results) -> Iterator[Finding]:
    """The same kernel at the same place of every step, with very different durations."""
    trace, steps = results.trace, results.step_table()
    if len(steps) < 3 or not results.is_whole:
        return
    at = results.work()[trace.kind[results.work()] == Kind.KERNEL]
    at = at[~np.isin(at, results.work_of_kind("collective"))]
    step = step_of(steps, launch_times(trace, at))
    order = np.argsort(step, kind="stable")
    first = np.searchsorted(step[order], np.arange(len(steps) + 1))
    table = _same_sequence(results, at[order], first)
    if table is None:
        return
    time = trace.duration[table]
    ratio = time.max(axis=0) / np.maximum(time.min(axis=0), 1)
    wide = np.flatnonzero((ratio >= SPREAD_RATIO) & (time.max(axis=0) >= SPREAD_NS))
    # What the slow calls take more than the usual one.
    excess = np.maximum(time - np.median(time, axis=0), 0)[:, wide].sum()
    if not len(wide) or excess < SPREAD_SHARE * int(time.sum()):
        return
    usual = np.median(time, axis=0)
    far = (time >= FAR_RATIO * usual) & (time >= SPREAD_NS)
    lost = int((time - usual)[far].sum())
    if lost >= FAR_SHARE * int(time.sum()):
        yield _far_slower(results, table[far][np.argsort(-time[far], kind="stable")], lost, int(time.sum()))
        return
    worst = int(wide[np.argmax((time.max(axis=0) - time.min(axis=0))[wide])])
    column = table[:, worst]
    order = np.argsort(-trace.duration[column], kind="stable")
    if _other_grids(trace, table[np.argmin(time[:, worst])], table[np.argmax(time[:, worst])], worst):
        return
    name = results.decoded(int(column[0]))
    low, high = int(time[:, worst].min()), int(time[:, worst].max())
    clocks = smi(results).replace("nvidia-smi", "nvidia-smi -q -d CLOCK,POWER")
    yield Finding(
        "spread",
        "low",
        f"{name.short} takes {duration(low)} in one step and {duration(high)} in another",
        "It is the same kernel at the same place in the step, so the work should be the same; "
        f"{len(wide):,} of {plural(table.shape[1], 'kernel')} per step "
        f"{'varies' if len(wide) == 1 else 'vary'} by a factor of {SPREAD_RATIO:g} or more. Clocks, "
        "power limits, kernels that run at the same time (collectives above all), other processes on the "
        "GPU, and what is in the caches can all cause this.",
        f"Look at the trace, not the mean. Check the clocks ({clocks}), profile more steps, and compare "
        "medians.",
        first_of(column[order]),
        {"shortest_ns": float(low), "longest_ns": float(high), "kernels": float(len(wide))},
    )


def _far_slower(results: Results, at: I64, lost: int, time: int) -> Finding:
    """The finding on kernels that some steps run many times as long: `at`, the longest first. `lost`: what
    they take beyond the usual, of the `time` of all kernels of these steps, ns."""
    trace = results.trace
    name, longest = results.decoded(int(at[0])), duration(int(trace.duration[at[0]]))
    what = f"{plural(len(at), 'kernel')} {verb(len(at), 'take')}"
    return Finding(
        "spread",
        graded(results, lost),
        f"{what} {FAR_RATIO} or more times as long as in other steps: {share(lost / time)} of kernel time",
        f"The same kernel at the same place in the step usually takes far less; the longest is {name.short}, "
        f"{longest}. Beyond the usual, they add up to {duration(lost)}. If their inputs are no larger there, "
        "another process shares the GPU: a kernel that is interrupted for the other process's turn lasts "
        "that much longer.",
        f"Look for other processes on the GPU ({smi(results)}), and record again with the GPU to yourself. "
        "Until then, compare medians, not means.",
        first_of(at),
        {"device_ns": float(lost), "kernels": float(len(at)), "share": lost / time},
    )


def _other_grids(trace: Trace, one: I64, other: I64, near: int) -> bool:
    """Whether kernels of one step have other grids than the same ones of another step, so that the shapes
    differ. Only those about the place `near` are read."""
    about = slice(max(0, near - GRIDS_READ // 2), near + GRIDS_READ // 2)
    grids = [[args.get("grid") for args in trace.args_of(step[about])] for step in (one, other)]
    return grids[0] != grids[1]


def _same_sequence(results: Results, at: I64, first: I64) -> I64 | None:
    """The kernels of the steps that run what the last one runs: (steps, kernels), or None. `at`: those of all
    steps; `first`: where those of each step begin, and where the last one's end."""
    names, count = results.trace.name, np.diff(first)
    alike = first[:-1][count == count[-1]]
    rows = at[alike[:, None] + np.arange(count[-1])]
    same = rows[(names[rows] == names[rows[-1]]).all(axis=1)]
    return same if len(same) >= 3 and count[-1] else None


def fp32_products(results: Results) -> Iterator[Finding]:
    """Matrix products or convolutions in fp32 that no tensor core touches."""
    trace = results.trace
    names = results.kernel_names().items()
    plain = [i for i, name in names if _on_plain_units(name)]
    at = results.work()[np.isin(trace.name[results.work()], plain)]
    time = int(trace.duration[at].sum())
    if time < max(1, FP32_SHARE * results.work_time, OF_ALL * results.verdict().judged):
        return
    modern = has_tf32(trace, results.kernel_names().values())
    order = np.argsort(-trace.duration[at], kind="stable")
    name = results.decoded(int(at[order[0]]))
    peak, _ = peak_of(trace)
    convolutions = np.isin(at, results.work_of_kind("conv"))
    what = "convolutions" if convolutions.all() else "kernels" if convolutions.any() else "matmuls"
    text = f"{such(len(at), 'kernel', name.short)} {verb(len(at), 'take')} {duration(time)}, "
    text += f"{share(time / results.work_time)} of {WORK_TIME}, on the plain fp32 units. "
    faster = "tf32" if modern else "fp16"
    if peak and peak.tflops_for(faster) and peak.tflops_for("fp32"):
        text += (
            f"The {peak.label} does {peak.tflops['fp32']:g} TFLOP/s there and {peak.tflops[faster]:g} in "
            f"{faster} on its tensor cores."
        )
    if modern and 2 * int(trace.duration[at[convolutions]].sum()) > time:
        advice = _FP32_CONVOLUTIONS
    elif modern:
        advice = (
            'torch.set_float32_matmul_precision("high") lets them run as TF32; autocast runs them in bf16.'
        )
    elif trace.info.devices:
        advice = "Run them in fp16 under autocast: this GPU's tensor cores do not take fp32."
    else:  # a file that names no device
        advice = "If the GPU has tensor cores (Volta or newer), run them in fp16 under autocast."
    yield Finding(
        "fp32_products",
        graded_kernels(results, time),
        f"fp32 {what} run without tensor cores: {share(time / results.work_time)} of {WORK_TIME}",
        text.strip(),
        advice,
        first_of(at[order]),
        {"share": time / results.work_time, "device_ns": float(time), "kernels": float(len(at))},
    )


def plain_convolutions(results: Results) -> Iterator[Finding]:
    """Convolutions in fp16 or bf16 that no tensor core touches."""
    trace = results.trace
    plain = [
        i
        for i, name in results.kernel_names().items()
        if name.kind == "conv" and name.tensor_cores is False and name.dtype in ("fp16", "bf16")
    ]
    at = longest_first(trace, results.work()[np.isin(trace.name[results.work()], plain)])
    time = int(trace.duration[at].sum())
    if time < max(1, FP32_SHARE * results.work_time, OF_ALL * results.verdict().judged):
        return
    name = results.decoded(int(at[0]))
    yield Finding(
        "plain_convolutions",
        graded_kernels(results, time),
        f"{name.dtype} convolutions run without tensor cores: {share(time / results.work_time)} of "
        f"{WORK_TIME}",
        f"{such(len(at), 'kernel', name.short)} {verb(len(at), 'take')} {duration(time)}: they "
        f"read "
        f"{name.dtype} and multiply on the plain units, many times slower than the tensor cores could.",
        _PLAIN_CONVOLUTIONS,
        first_of(at),
        {"share": time / results.work_time, "device_ns": float(time), "kernels": float(len(at))},
    )


def double_precision(results: Results) -> Iterator[Finding]:
    """Matrix products or convolutions in fp64: often a default of NumPy's that nobody chose."""
    trace = results.trace
    wide = [
        i
        for i, name in results.kernel_names().items()
        if name.kind in ("gemm", "conv") and name.dtype in ("fp64", "complex128")
    ]
    at = results.work()[np.isin(trace.name[results.work()], wide)]
    time = int(trace.duration[at].sum())
    if time < max(1, FP32_SHARE * results.work_time, OF_ALL * results.verdict().judged):
        return
    at = longest_first(trace, at)
    peak, _ = peak_of(trace)
    text = f"{such(len(at), 'kernel', results.decoded(int(at[0])).short)} "
    text += f"{verb(len(at), 'take')} {duration(time)}, {share(time / results.work_time)} of {WORK_TIME}."
    faster = "tf32" if has_tf32(trace, results.kernel_names().values()) else "fp32"
    if peak and peak.tflops_for("fp64") and peak.tflops_for(faster):
        text += f" The {peak.label} does {peak.tflops['fp64']:g} TFLOP/s in fp64 at most, and "
        text += f"{peak.tflops[faster]:g} in {faster}."
    yield Finding(
        "double_precision",
        graded_kernels(results, time),
        f"fp64 {'kernels' if np.isin(at, results.work_of_kind('conv')).any() else 'matmuls'} take "
        f"{share(time / results.work_time)} of {WORK_TIME}",
        f"{text} Everything between them moves twice the bytes of fp32.",
        "If the result does not need fp64, convert model and data to fp32 or bf16. NumPy makes float64 "
        "arrays unless told otherwise, and torch.from_numpy keeps their type.",
        first_of(at),
        {"share": time / results.work_time, "device_ns": float(time), "kernels": float(len(at))},
    )


def _on_plain_units(name: KernelName) -> bool:
    return name.tensor_cores is False and name.dtype == "fp32"


def unaligned_products(results: Results) -> Iterator[Finding]:
    """Products on tensor cores that have to load their operands piecemeal, as the rows are not aligned."""
    trace = results.trace
    slow = [i for i, name in results.kernel_names().items() if UNALIGNED in name.notes and name.tensor_cores]
    at = outside_attention(results, results.work()[np.isin(trace.name[results.work()], slow)])
    time = int(trace.duration[at].sum())
    if not time or time < UNALIGNED_SHARE * results.work_time:
        return
    order = np.argsort(-trace.duration[at], kind="stable")
    longest = int(at[order[0]])
    name = results.decoded(longest)
    op = _op_of(results, longest)
    work = work_of(trace.name_of(op), trace.args(op)) if op >= 0 else None
    shape = f" The longest is {trace.name_of(op)}, {work.shape}." if work else ""
    part = share(time / results.work_time)
    yield Finding(
        "unaligned_products",
        graded_kernels(results, time),
        f"Kernels with unaligned operands take {part} of {WORK_TIME}",
        f"{such(len(at), 'kernel', name.short)} {verb(len(at), 'load')} one element at a time "
        "(align1 in the name), because an operand's rows do not start at multiples of 16 bytes: some "
        f"dimension is not a multiple of 8.{shape} Kernels for aligned operands load up to eight at a time.",
        "Pad that dimension to a multiple of 8 (better, 64): vocabulary, sequence length, number of classes.",
        first_of(at[order]),
        {"share": time / results.work_time, "device_ns": float(time), "kernels": float(len(at))},
    )


def _op_of(results: Results, event: int) -> int:
    """The op behind one slice of the device work, -1 for none."""
    return int(results.work_op()[np.flatnonzero(results.work() == event)[0]])
