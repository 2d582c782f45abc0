"""The words of this program and of profiling, in two sentences each, for who knows PyTorch.

`TEXT` has a block for each: its name, the two sentences, where it shows, other terms to see, and (also) a
regular expression of the ways in which a text may write it, ignoring case, where that is not just the name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracetui.analysis import examples
from tracetui.analysis.examples import Example, Find, decoded, first, gap, judged, launch, longest
from tracetui.analysis.meanings.operators import is_view
from tracetui.trace import Kind

if TYPE_CHECKING:
    from tracetui.analysis.results import Results


@dataclass(frozen=True, slots=True)
class Term:
    """A word and what it means.

    Attributes:
        name: as the program writes it.
        group: its heading.
        text: two sentences.
        where: where it shows.
        see: names of other terms.
        spelled: a regular expression of the ways in which a text may write it; "" for the name.
        find: gives an example in a trace; None where there cannot be one.
    """

    name: str
    group: str
    text: str
    where: str
    see: tuple[str, ...] = ()
    spelled: str = ""
    find: Find | None = None


TEXT = r"""
# GPU

host and device
  The host is the CPU with its memory, the device is the GPU (or another accelerator) with its own. The
  host launches work, and the device runs it later.
  where: CPU lanes above, GPU lanes below; HtoD and DtoH copies
  see: launch, stream, copy
  also: hosts?(?! \d)|devices?

kernel
  A function that runs on the GPU, on many threads at once. A bar on a stream is one run of a kernel.
  where: the bars of the GPU's lanes
  see: launch, stream, grid
  also: kernels?

stream
  A queue of work for the GPU: what is in one stream runs in order, and different streams may run at the
  same time. PyTorch uses one unless it is told otherwise; NCCL often has its own.
  where: a lane of the GPU, such as stream 7
  see: launch, kernel
  also: streams?(?!'s time)

launch
  The call with which the CPU puts a kernel, a copy or a memset into a stream's queue. It takes the CPU a
  few microseconds and returns before the work runs.
  where: cudaLaunchKernel and its kind, in CPU lanes and in the chain of explain
  see: launch to start, kernel, overhead-bound
  also: launch(?:es|ed|ing)?(?! was on)(?! latency)

copy
  Data moves between memories: HtoD goes from the host to the device, DtoH back, DtoD stays on the device.
  The first two go over PCIe or NVLink, which is many times slower than the device's memory.
  where: Memcpy bars on the GPU's lanes
  see: pinned memory, copy-bound
  also: mem ?cpy|[HDP]to[HDP]|cop(?:y|ies)

memset
  Memory of the device is set to a value. Before a kernel of a library it clears a few bytes, such as
  counters.
  where: Memset bars on the GPU's lanes
  see: copy, launch
  also: memsets?

pinned memory
  Memory of the host that stays where it is, so that the GPU can copy it by itself. From or to ordinary
  (pageable) memory the driver copies in pieces through a pinned buffer, and the CPU waits for part of it.
  where: Pinned or Pageable in the names of copies
  see: copy
  also: pinned(?: memory)?|pageable(?: memory)?

SM
  A streaming multiprocessor: one of the units that a GPU computes with, 132 on an H100 or H200 (SXM). A
  block of a kernel runs on one SM, and an SM runs several blocks at a time if they fit.
  where: in explain: blocks for so many multiprocessors
  see: block, occupancy
  also: (?-i:SMs?)|multiprocessors?

warp
  32 threads of a block that run the same instruction together. AMD calls it a wavefront, with 64 threads
  on its GPUs for data centers.
  where: warps per SM in the details of a kernel
  see: block, occupancy
  also: warps?|wavefronts?

block
  A group of up to 1,024 threads that runs on one SM and shares its shared memory. The blocks of a kernel
  run in any order, as many at a time as fit.
  where: the details of a kernel
  see: grid, SM, warp
  also: (?<!buffer )blocks?

grid
  All blocks of one launch. If there are fewer of them than SMs, part of the GPU has nothing to do.
  where: the details of a kernel
  see: block, SM
  also: grids?

occupancy
  The warps that an SM holds at a time, as a share of the most it can hold: registers, shared memory and
  the grid limit it. Low is not slow, as matrix products show; Kineto writes 0 for kernels with much
  shared memory, which is not measured and not true.
  where: the details of a kernel
  see: warp, registers, shared memory
  also: occupancy

registers
  The fastest memory, where a thread keeps its own values. An SM has a fixed number (65,536 on NVIDIA's),
  so that many registers per thread leave room for fewer warps.
  where: the details of a kernel
  see: occupancy, shared memory
  also: registers?

shared memory
  Fast memory of an SM that the threads of a block share, up to 227 KiB per block on an H100. The more a
  block takes, the fewer blocks fit on an SM.
  where: the details of a kernel
  see: block, occupancy, stages
  also: shared memory

L2
  The cache that all SMs share, 50 MB on an H100. What a kernel has just written may still be there for
  the next, which then reads it faster than HBM could deliver.
  where: in explain, where a kernel moves more than the memory can
  see: HBM
  also: (?-i:L2)(?: cache)?

HBM
  The GPU's main memory, where tensors are: 4.8 TB/s on an H200. A kernel that does little arithmetic with
  each element is as fast as it can be read and written.
  where: shares of the bandwidth in explain and in efficiency
  see: L2, roofline, fusion
  also: (?-i:HBM)|bandwidth|bound by memory|memory traffic

tensor core
  A unit of an SM that multiplies small matrices, in bf16, fp16, TF32, FP8 and others. It is many times
  faster than the plain units, which fp32 uses unless TF32 is allowed.
  where: the details of a matrix product
  see: GEMM, peak
  also: tensor cores?

peak
  What the device can do at most by its data sheet, in FLOP/s for a type of number and in B/s. Large
  matrix products often reach 60 to 80 % of it, and no program reaches all.
  where: shares of the peak in explain and in efficiency
  see: roofline, FLOP
  also: peak

roofline
  A kernel is held back by arithmetic or by memory, whichever takes longer: with little arithmetic per
  byte it is memory. The shares of both peaks tell how near it is to its own roof.
  where: efficiency
  see: peak, HBM, FLOP
  also: roofline

FLOP
  One addition or multiplication of floating-point numbers; FLOP/s are those per second. A product of M x
  K and K x N takes 2·M·K·N.
  where: explain and efficiency, for ops whose shapes were recorded
  see: peak, GEMM
  also: (?-i:[TGM]?FLOPs?(?:/s)?)

# kernels

elementwise
  Each element of the result depends on one element of each input, as in add, mul or gelu. Reading and
  writing memory is nearly all of its time.
  where: explain on most of PyTorch's own kernels
  see: HBM, fusion
  also: elementwise|pointwise

reduction
  Many elements become one, as in sum, mean or a norm. Reading memory is most of its time.
  where: explain on kernels that reduce
  see: HBM, elementwise
  also: reductions?

vec8
  An elementwise kernel in which each thread reads and writes so many elements at a time. It needs
  elements in order and aligned addresses; the number is larger for smaller types.
  where: names of PyTorch's elementwise kernels
  see: elementwise
  also: vec\d+

fusion
  Several ops in one kernel, so that what is between them stays in registers instead of going to memory
  and back. torch.compile does it, and libraries do it for attention or an optimizer's update.
  where: Triton kernels with several ops in their name
  see: epilogue, HBM, Triton
  also: fus(?:ion|es?|ed)|fusing

foreach
  An op over a whole list of tensors, such as all parameters of a model. It takes a few kernels for the
  list where a loop would launch one for each tensor.
  where: aten::_foreach_… in an optimizer
  see: fusion, launch
  also: _?foreach\w*

flash attention
  Attention in one kernel that goes over the keys piece by piece, so that the matrix of scores is never
  written to memory. PyTorch has several (flash, memory-efficient, cuDNN) behind
  scaled_dot_product_attention.
  where: explain on attention
  see: fusion, HBM
  also: flash(?: attention)?|scaled_dot_product\w*

spread
  The same kernel on the same shapes takes different times: clocks follow heat and power, and caches and
  neighbors matter. Compare medians, not single runs.
  where: min, median and max in the details
  see: cold start
  also: median|spread

# matrix products

GEMM
  A product of two matrices, C = α·A·B + β·C. M x K x N are the rows of A, what is summed over, and the
  columns of B.
  where: kernels of linear layers
  see: tile, tensor core, FLOP
  also: (?-i:GEMMs?)|gemms?|matrix products?|M x K x N

tile
  The part of the result that a block computes at a time; 64x8 is 64 x 8 elements. Few or badly fitting
  tiles leave SMs idle.
  where: names of matrix products
  see: stages, cluster, SM
  also: tiles?

64x8
  In the name of an nvjet kernel the first pair is the tile of the result, the second is how much of K is
  loaded at a time and in how many stages. The third is the cluster.
  where: names that begin with nvjet; explain spells them out
  see: tile, stages, cluster
  also: \d{1,3}x\d{1,3}_\d{1,3}x\d{1,3}

stages
  How many pieces of A and B a kernel has in flight: it loads the next ones while it multiplies. More of
  them hide the memory's delay and cost shared memory.
  where: names of matrix products
  see: tile, shared memory
  also: stages?(?: in flight)?

cluster
  On Hopper and later: a few blocks that are sure to run at the same time on SMs of one group and can read
  one another's shared memory. In a name, 1x2 is a cluster of two.
  where: names of matrix products
  see: block, shared memory
  also: clusters?

cooperative
  In the name of a product: two groups of warps share a tile (CUTLASS says so; of nvjet's coopA and coopB
  it is not documented). In a launch: the blocks of the kernel may wait for one another.
  where: names of matrix products; cudaLaunchCooperativeKernel
  see: warp, tile
  also: cooperative|coop[AB]

epilogue
  What a product's kernel does with the result before it writes it: adds a bias, applies an activation,
  converts the type. It saves a kernel of its own, which would read and write all of the result again.
  where: +bias in the name of a product
  see: fusion, GEMM, HBM
  also: epilogues?

split K
  The sum over K is divided among blocks, and the parts are added at the end, often by a kernel of its
  own. It fills the device when the result has few tiles and K is long.
  where: names of matrix products
  see: tile, GEMM
  also: split[ -_]?K

tnt
  The layout of a product: n means that a matrix is read as it is, t that it is read transposed, first A,
  then B, as BLAS sees them (column by column). What the third letter says of nvjet is not documented.
  where: names of matrix products
  see: view and stride, GEMM
  also: (?-i:[ntNT]{3})|layout

bz
  It stands in names of nvjet where nothing is added to the product (beta is zero); badd stands where C is
  added. NVIDIA does not document it, but the ops agree.
  where: names that begin with nvjet
  see: GEMM, epilogue
  also: (?-i:bz|badd)

cuBLAS
  NVIDIA's library of matrix products, with many kernels among which it picks by shape, type and layout.
  nvjet is its family for Hopper and later.
  where: family in explain
  see: GEMM, tile
  also: (?-i:cuBLAS(?:Lt)?)|nvjet

# PyTorch

operator
  A step of PyTorch, such as aten::mm. Its bar is the CPU's time to choose and launch; what it launched
  runs on the GPU later.
  where: aten::… on the CPU's lanes
  see: dispatch, launch, self and total
  also: operators?|ops?

view and stride
  A view is a tensor over the same memory with other sizes and strides: no element moves, nothing is
  launched. A stride is how many elements lie between neighbors of a dimension; a transpose swaps two of
  them.
  where: Input Strides in the details; explain reads them out
  see: in place, operator
  also: views?|strides?|metadata only|transposed

in place
  An op whose name ends in _ overwrites its input. It saves memory and a copy; autograd raises an error if
  it still needs the old values.
  where: ops such as aten::add_
  see: view and stride, caching allocator
  also: in place|in-place

self and total
  The total time of an op counts the ops and calls inside it, its self time does not. Sort by self to find
  where the time goes, by total to find who asked for it.
  where: the columns of the averages; explain
  see: operator
  also: self|total

backward
  Autograd runs the nodes that the forward pass has left, in reverse order; for a GPU it does so on a
  thread of its own. MmBackward0 is the backward of one aten::mm.
  where: autograd::engine::evaluate_function on a CPU lane
  see: operator, correlation and flow
  also: backward(?: pass)?|autograd

caching allocator
  PyTorch keeps the GPU memory that tensors give back and hands it out again without asking the driver.
  Reserved is what it has from the driver, allocated what tensors use of it.
  where: memory counters, with profile_memory; cudaMalloc where it had to ask
  see: allocation
  also: caching allocator|allocator|reserved

synchronization
  The CPU waits until the GPU has done what was asked before; item(), print and copies to pageable memory
  do it too. While it waits it launches nothing, so that the queue runs empty.
  where: cudaStreamSynchronize and its kind on a CPU lane
  see: sync, launch to start
  also: synchroni[sz]\w*

data loader
  What gives a training loop its batches. Its workers, if it has any, are processes of their own, so that
  the trace shows the wait for a batch and not the work on it.
  where: enumerate(DataLoader)#…
  see: host
  also: data ?loader|data loading

CUDA graph
  Kernels that were recorded once and are launched together by one call. It takes the launches and
  PyTorch's own work off the CPU, as long as shapes and addresses stay the same.
  where: cudaGraphLaunch
  see: launch, overhead-bound
  also: (?-i:CUDA) ?graphs?|graph launches|cudaGraph\w*

cold start
  What runs for the first time sets up the device, loads kernels, makes handles and asks for memory, or
  compiles. It makes the first step long once, and says nothing of the others.
  where: the first step; the cause initialisation
  see: warm-up, initialisation, Lazy Function Loading
  also: cold(?: start)?|first[- ]use|used for the first time

warm-up
  Steps that run before the measurement, so that it does not show what is paid once. The program still
  pays it: a short job or a first request may spend most of its time there.
  where: the schedule of the profiler
  see: cold start, schedule
  also: warm(?:-| )?up

# torch.compile

torch.compile
  TorchDynamo turns Python into a graph, AOTAutograd adds its backward, and Inductor writes kernels for
  it. The first call compiles; each later one checks guards and runs the result.
  where: Torch-Compiled Region
  see: guard, Inductor, recompilation
  also: torch\.compile|TorchDynamo|AOTDispatcher|Torch-Compiled Region

guard
  A condition under which compiled code is valid, such as a shape, a type or a flag. All of them are
  checked on every call, which takes a few microseconds for small and for large tensors alike; code
  outside torch.compile pays for none.
  where: TorchDynamo Cache Lookup
  see: recompilation, torch.compile
  also: guards?|TorchDynamo Cache Lookup

recompilation
  Guards fail, for a new shape say, and the function is compiled again. In Torch-Compiled Region: 0/1 the
  first number is the function, the second is above 0 after a recompilation; TORCH_LOGS=recompiles says
  why.
  where: Torch-Compiled Region with a second number above 0
  see: guard, static shapes
  also: recompil\w+

static shapes
  The first compilation takes sizes as constants; when one changes, it is compiled again with that size
  left open (dynamic). mark_dynamic says so beforehand.
  where: Torch-Compiled Region with a second number above 0
  see: recompilation, guard
  also: (?:static|dynamic) shapes?

graph break
  Something that torch.compile cannot trace: the graph ends there, Python runs it, and another graph
  begins. Each break costs guards and launches, and stops fusion; TORCH_LOGS=graph_breaks lists them.
  where: several Torch-Compiled Regions in what should be one
  see: guard, fusion
  also: graph breaks?

Inductor
  The part of torch.compile that writes code: Triton kernels for elementwise ops and reductions, calls of
  libraries for products. TORCH_LOGS=output_code prints it.
  where: ## Call CompiledFxGraph
  see: Triton, fusion
  also: Inductor|CompiledFxGraph

Triton
  A language for GPU kernels in Python. In triton_poi_fused_gelu_mul_0, poi is the kind (pointwise; red
  and per are reductions), then come the ops that were fused and a number.
  where: kernels named triton_…
  see: Inductor, fusion
  also: triton

# several GPUs

rank
  One process of a distributed job, as a rule with one GPU. A trace holds one rank unless several are
  opened together.
  where: the header of a distributed trace
  see: collective
  also: ranks?

collective
  Communication in which all ranks take part, such as an all-reduce, which gives every rank the sum. It
  cannot end before the slowest rank has come.
  where: nccl:… on the CPU, ncclDevKernel_… on the GPU
  see: rank, exposed, NCCL
  also: collectives?|all[-_]?reduces?|communication

NCCL
  NVIDIA's library of collectives (RCCL on AMD). Ring and tree are ways that the data take, LL, LL128 and
  Simple are protocols, from low latency to high bandwidth.
  where: names of collective kernels
  see: collective
  also: (?-i:NCCL|RCCL)|nccl\w*

exposed
  Communication during which the GPU computes nothing, so that it costs time. Hidden communication runs
  beside kernels and costs little.
  where: the steps, and the verdict
  see: collective, communication-bound
  also: exposed|while nothing computes|hidden

# the trace

ProfilerStep
  The annotation of one step, from one prof.step() to the next, counted from 0. A recording that begins at
  #2 left out 0 and 1: wait skips steps, warmup runs steps that are thrown away.
  where: the outermost bar of the main CPU lane
  see: schedule, annotation
  also: ProfilerSteps?(?:#\d+)?

schedule
  schedule(wait=1, warmup=1, active=3) tells the profiler to skip one step, to run along for one without
  keeping it, and to record three. The warm-up keeps the profiler's own start out of the recording.
  where: numbers of steps
  see: ProfilerStep, warm-up
  also: schedules?|\bwait=|warmup

annotation
  A range with a name that the program set with record_function, or PyTorch by itself, as for an
  optimizer. Its bar is the CPU's time in it.
  where: bars on the CPU's lanes
  see: shadow, ProfilerStep
  also: annotations?|record_function

shadow
  An annotation as the device sees it: from the first to the last kernel that was launched inside it.
  Pauses count, so that it can be far longer than the kernels, and its percentage far above 100.
  where: the annotation lanes of the GPU
  see: annotation, launch
  also: shadows?

correlation and flow
  A launch and what it launched have the same number, the correlation; a forward op and its backward are
  joined by another. These links make the arrows and the chain of explain.
  where: correlation in the details; the chain of explain
  see: launch, External id
  also: correlation|flows?

External id
  The number by which the profiler joins calls and kernels to the op that they belong to. Ev Idx and
  Record function id number the events of the CPU, and say nothing else.
  where: the details
  see: correlation and flow
  also: External id|Ev Idx|Record function id

Activity Buffer Request
  The profiler asks for memory to record device events into, and the launch that needs it waits. The
  program without a profiler does not pay it.
  where: overhead on a CPU lane
  see: profiler, warm-up
  also: Activity Buffer Requests?|buffer requests?

Lazy Function Loading
  CUDA loads a kernel's code when it is used for the first time; Runtime Triggered Module Loading is the
  same for a whole module. The profiler reports it as overhead, but the program pays it without a
  profiler, too.
  where: overhead on a CPU lane
  see: cold start, initialisation
  also: Lazy Function Loading|Runtime Triggered Module Loading|lazy loading

INVALID
  A call of the runtime whose name Kineto's table does not have, as it is older than the CUDA in use. What
  it called, the trace does not tell.
  where: calls on a CPU lane
  see: launch
  also: (?-i:INVALID)

# idle time

gap
  A stretch in which nothing runs on a device, on none of its streams. It is cut into pieces by what held
  the next work up, and its cause is that of the largest piece.
  where: the gaps; empty stretches of the GPU's lanes
  see: busy share, overhead-bound
  also: gaps?|idle(?: time)?|stood idle

busy share
  The time in which a device runs anything, as a share of a time that is named with it: the step, the
  recording, or from its first to its last event. Busy is not fast: one small kernel counts as much as a
  large one.
  where: the header, the verdict and the steps
  see: gap, occupancy
  also: busy(?! inside)(?: share)?

launch to start
  The delay from the start of a launch on the CPU to the start of its work on the GPU. A few microseconds
  mean that the GPU had waited for it, more that work was queued: the CPU is ahead.
  where: the delay chart; the chain of explain
  see: queue depth, launch
  also: launch (?:→|to) start|delay|after its launch

queue depth
  How many launched kernels, copies and memsets wait for their turn at a time. 0 means that the GPU
  waits for the CPU, many that the GPU sets the pace.
  where: the queued chart
  see: launch to start, stream
  also: queue depth|was queued behind|nothing (?:was|is) queued

lead-in
  The time before the first device event of the recording: the CPU starts, the GPU has nothing yet. It is
  left out of the verdict, unless every step shows it.
  where: the reports, and the verdict's reason
  see: Activity Buffer Request, cold start
  also: lead-in

initialisation
  The CPU was in what the first use of the device makes slow: its context, loading of code, handles of
  libraries. It happens once, and is left out of the verdict.
  where: a cause of gaps
  see: cold start, Lazy Function Loading
  also: initiali[sz]ation|first use of the device

profiler
  The profiler itself was at work, for instance asking for a buffer. Without it this time is not spent,
  and it is left out of the verdict.
  where: a cause of gaps
  see: Activity Buffer Request
  also: profiler itself|profiler's own

sync
  The CPU had waited for the device and only then went on to launch. The queue had run empty meanwhile:
  look for item(), print, .cpu() or a synchronize in the loop.
  where: a cause of gaps
  see: synchronization
  also: (?-i:sync)|had waited for the (?:device|GPU)

allocation
  The CPU was in cudaMalloc, cudaFree or their kind. PyTorch's allocator avoids them after the first
  steps, unless sizes keep changing or memory is short.
  where: a cause of gaps
  see: caching allocator
  also: allocation|allocating or freeing

dispatch
  The CPU was inside ops: PyTorch chose, checked and prepared, or ops did work on the CPU. Fewer and
  larger ops, torch.compile or a CUDA graph make it less.
  where: a cause of gaps
  see: operator, CUDA graph
  also: dispatch|busy inside ops

host
  The CPU was outside any op: Python, a data loader, logging, sleep. Record Python's stack (with_stack) to
  see which code.
  where: a cause of gaps
  see: data loader, dispatch
  also: (?-i:host)(?= \d)|outside any op

launch (cause)
  The launch was on its way: the call itself, and the few microseconds until the device begins. Many small
  kernels that wait for one another show much of it.
  where: a cause of gaps
  see: launch, CUDA graph
  also: launch was on its way|launch latency

queued
  The next work was launched and did not start, and nothing that was recorded ran. It waited for something
  else: another stream, an event, another rank, or work of before the recording.
  where: a cause of gaps
  see: stream, queue depth
  also: (?:work|it) was queued(?! behind)

back to back
  The time from one kernel to the next of the same stream, up to 5 µs, with nothing to wait for. It is
  normal; with very many kernels it adds up, and a CUDA graph or fusion makes it less.
  where: a cause of gaps
  see: fusion, CUDA graph
  also: back to back|one kernel followed another|from one kernel to the next

unlinked
  The trace does not have the launch of the work that ended the gap. Why the device stood idle is not
  known.
  where: a cause of gaps
  see: correlation and flow
  also: unlinked|does not tell what launched

# verdicts

overhead-bound
  For half of the step or more the GPU waits for the CPU. A faster GPU would change little: launch less
  often, or make each launch worth more.
  where: the verdict
  see: dispatch, host, CUDA graph
  also: overhead-bound

compute-bound
  The GPU computes for 80 % of the step or more: its kernels set the pace. Fewer FLOPs, fewer bytes or
  faster kernels help, a faster CPU does not.
  where: the verdict
  see: roofline, HBM
  also: compute-bound

communication-bound
  For half of the step or more the GPU only communicates, or waits for other ranks in a collective.
  Overlap it with computing, send less, or find the slow rank.
  where: the verdict
  see: exposed, collective
  also: communication-bound

copy-bound
  For half of the step or more the GPU only copies. Pinned memory, non_blocking=True and copies beside
  kernels help, and keeping data on the GPU.
  where: the verdict
  see: copy, pinned memory
  also: copy-bound

mixed
  No part is as large as half of the step, and computing takes less than 80 %. The two largest parts are
  named: begin with the first.
  where: the verdict
  see: overhead-bound, compute-bound
  also: (?-i:mixed)

CPU-only
  The trace has no device events, so that only the CPU's time can be judged: ops, communication, waiting.
  A recording on a GPU needs ProfilerActivity.CUDA.
  where: the verdict
  see: operator, self and total
  also: CPU-only

not known
  There is nothing to judge by: no device events, or none in this part. The tool says so rather than
  guess.
  where: the verdict
  see: CPU-only
  also: not known
"""


def _view(results: Results) -> Example | None:
    """The longest view op."""
    views = {name for name in results.trace.names if name.startswith("aten::") and is_view(name)}
    return longest(Kind.CPU_OP, name=rf"^(?:{'|'.join(sorted(views))})$")(results) if views else None


_KERNEL = longest(Kind.KERNEL)
_GEMM = decoded(lambda name: name.kind == "gemm")
_MEMORY_BOUND = decoded(lambda name: name.kind in ("elementwise", "copy", "norm", "softmax", "reduction"))
FIND: dict[str, Find] = {
    "host and device": examples.first_on_device,
    "kernel": _KERNEL,
    "stream": _KERNEL,
    "launch": launch(Kind.KERNEL),
    "copy": longest(Kind.MEMCPY),
    "memset": longest(Kind.MEMSET),
    "pinned memory": longest(Kind.MEMCPY, name="Pinned|Pageable"),
    "SM": _KERNEL,
    "warp": _KERNEL,
    "block": _KERNEL,
    "grid": _KERNEL,
    "occupancy": _KERNEL,
    "registers": _KERNEL,
    "shared memory": _KERNEL,
    "L2": _MEMORY_BOUND,
    "HBM": _MEMORY_BOUND,
    "tensor core": decoded(lambda name: name.tensor_cores),
    "peak": _GEMM,
    "roofline": _GEMM,
    "FLOP": _GEMM,
    "elementwise": decoded(lambda name: name.kind == "elementwise"),
    "reduction": decoded(lambda name: name.kind == "reduction"),
    "vec8": decoded(lambda name: " vec" in name.short),
    "fusion": decoded(lambda name: len(name.ops) > 1),
    "foreach": longest(Kind.CPU_OP, name="_foreach_"),
    "flash attention": decoded(lambda name: name.kind == "attention"),
    "spread": _KERNEL,
    "GEMM": _GEMM,
    "tile": decoded(lambda name: name.tile),
    "64x8": decoded(lambda name: name.family == "nvjet"),
    "stages": decoded(lambda name: name.stages),
    "cluster": decoded(lambda name: name.cluster),
    "cooperative": decoded(lambda name: any("cooperative" in note for note in name.notes)),
    "epilogue": decoded(lambda name: any("epilogue" in note for note in name.notes)),
    "split K": decoded(lambda name: any("split K" in note for note in name.notes)),
    "tnt": decoded(lambda name: name.kind == "gemm" and name.layout),
    "bz": decoded(lambda name: "_bz_" in name.name),
    "cuBLAS": decoded(lambda name: name.family in ("nvjet", "cublas")),
    "operator": longest(Kind.CPU_OP),
    "view and stride": _view,
    "in place": longest(Kind.CPU_OP, name="^aten::\\w+[a-z0-9]_$"),
    "self and total": examples.parent,
    "backward": longest(Kind.CPU_OP, name="^autograd::engine|Backward\\d*$"),
    "caching allocator": longest(Kind.RUNTIME, name="Malloc|MemAlloc|Free|MemCreate"),
    "synchronization": longest(Kind.RUNTIME, name="Synchronize"),
    "data loader": longest(Kind.ANNOTATION, Kind.CPU_OP, name="^enumerate\\(DataLoader\\)"),
    "CUDA graph": longest(Kind.RUNTIME, name="GraphLaunch"),
    "cold start": gap("initialisation"),
    "torch.compile": longest(Kind.CPU_OP, Kind.ANNOTATION, name="^Torch-Compiled Region"),
    "guard": longest(Kind.CPU_OP, name="^TorchDynamo Cache Lookup"),
    "recompilation": longest(Kind.CPU_OP, Kind.ANNOTATION, name="^Torch-Compiled Region: \\d+/[1-9]"),
    "Inductor": longest(Kind.CPU_OP, Kind.ANNOTATION, name="CompiledFxGraph"),
    "Triton": decoded(lambda name: name.family == "triton"),
    "collective": examples.collective,
    "NCCL": longest(Kind.KERNEL, name="(?i)nccl|rccl"),
    "exposed": examples.exposed,
    "ProfilerStep": first(Kind.ANNOTATION, Kind.CPU_OP, name="^ProfilerStep#"),
    "schedule": first(Kind.ANNOTATION, Kind.CPU_OP, name="^ProfilerStep#"),
    "annotation": longest(Kind.ANNOTATION, name="^(?!ProfilerStep)"),
    "shadow": longest(Kind.GPU_ANNOTATION),
    "correlation and flow": launch(Kind.KERNEL),
    "External id": longest(Kind.CPU_OP),
    "Activity Buffer Request": longest(Kind.OVERHEAD, name="^Activity Buffer Request"),
    "Lazy Function Loading": longest(Kind.OVERHEAD, name="^(?:Lazy Function|Runtime Triggered)"),
    "INVALID": longest(Kind.RUNTIME, name="^INVALID$"),
    "gap": gap(),
    "launch to start": examples.most_delayed,
    "queue depth": examples.most_delayed,
    "lead-in": examples.first_on_device,
    "initialisation": gap("initialisation"),
    "profiler": gap("profiler"),
    "sync": gap("sync"),
    "allocation": gap("allocation"),
    "dispatch": gap("dispatch"),
    "host": gap("host"),
    "launch (cause)": gap("launch"),
    "queued": gap("queued"),
    "back to back": gap("back to back"),
    "unlinked": gap("unlinked"),
    "overhead-bound": judged("overhead-bound"),
    "compute-bound": judged("compute-bound"),
    "communication-bound": judged("communication-bound"),
    "copy-bound": judged("copy-bound"),
    "mixed": judged("mixed"),
    "CPU-only": judged("CPU-only"),
    "not known": judged("not known"),
}
"""Of each term that a trace can have an example of."""


def _read(text: str) -> Iterator[Term]:
    group = ""
    for block in text.strip().split("\n\n"):
        if block.startswith("# "):
            group = block[2:]
            continue
        name, *lines = block.splitlines()
        fields = {"": "", "where": "", "see": "", "also": ""}
        for line in lines:
            key, colon, value = line.strip().partition(": ")
            key, value = (key, value) if colon and key in fields else ("", line.strip())
            fields[key] = f"{fields[key]} {value}".strip()
        see = tuple(fields["see"].split(", ")) if fields["see"] else ()
        yield Term(name, group, fields[""], fields["where"], see, fields["also"], FIND.get(name))


TERMS = tuple(_read(TEXT))
