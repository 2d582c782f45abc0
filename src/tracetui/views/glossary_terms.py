"""The words of this program and of profiling, in two sentences each, for readers who know PyTorch.

`TEXT` has a block for each: its name, the two sentences, where it shows, other terms to see, and the ways in
which a text may write it: those in lower case ignore case, any may have an s at the end, * stands for more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracetui.trace import DEVICE_WORK, Kind
from tracetui.views import examples
from tracetui.views.examples import Example, Find, decoded, first, gap, judged, launch, longest
from tracetui.words.operators import is_view

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
        spelled: the ways in which a text may write it.
        find: gives an example in a trace; None where there cannot be one.
    """

    name: str
    group: str
    text: str
    where: str
    see: tuple[str, ...] = ()
    spelled: tuple[str, ...] = ()
    find: Find | None = None


TEXT = r"""
# if you see

an idle GPU lane
  Red, or a texture without color, is time in which the GPU runs nothing, to scale at every zoom. The key g
  goes to the longest such gap and says why it is there; e explains it.
  where: the GPU's lanes, the top row
  see: gap, overhead-bound

a full GPU lane
  The kernels set the pace: a faster CPU changes nothing. Start with the kernel that takes most time, and see
  whether it reaches the peak.
  where: the GPU's lanes
  see: compute-bound, roofline

a long first step
  It pays what is paid once: loading kernels, setting up libraries, allocating, compiling. Leave it out when
  you judge the others, but every start of the program pays it.
  where: CPU lanes, steps
  see: cold start, warm-up

many short kernels
  Each takes about as long as its launch, so the CPU sets the pace. Give each more work, fuse them, or replay
  them as a CUDA graph.
  where: the GPU's lanes, findings
  see: overhead-bound, fusion, CUDA graph

a growing delay
  The CPU is ahead, and work waits in the queue: the GPU is kept busy. Where the delay falls to a few
  microseconds, the GPU waits for the CPU.
  where: the counters delay and queue
  see: launch to start, queue depth

a long synchronize call
  The CPU waits in it until the GPU has finished: its length is the GPU's time. It does harm only if the GPU
  has nothing to do right after it.
  where: CPU lanes
  see: synchronization, sync

an op with no kernel
  A view op such as aten::t changes shape and strides only and launches nothing. It costs a little CPU time
  and no GPU time; compiled code does without the call.
  where: CPU lanes, ops
  see: view and stride

total far above self
  The op itself does little: its time is in the ops that it calls. Look at those before you blame it.
  where: ops
  see: self and total

a copy before a matmul
  A DtoD copy right before a GEMM often puts the bias where the matmul adds its result onto it. A GEMM with a
  bias epilogue needs no such copy.
  where: the GPU's lanes, findings
  see: copy, epilogue

# GPU

host and device
  The host is the CPU and its memory; the device is the GPU (or another accelerator) and its memory. The
  host launches work, and the device runs it later.
  where: CPU lanes, and GPU lanes at the foot of the timeline
  see: launch, stream, copy
  also: the host, host's memory, host memory, memory of the host, device

kernel
  A function that runs on the GPU, in many threads at once. A bar on a stream is one run of a kernel.
  where: the bars of the GPU's lanes
  see: launch, stream, grid
  also: kernel

stream
  A queue of GPU work: work in one stream runs in order, work in different streams can overlap. PyTorch uses
  one stream by default; NCCL often has its own.
  where: a lane of the GPU, such as stream 7
  see: launch, kernel
  also: stream

launch
  The CPU call that puts a kernel, a copy or a memset into a stream's queue. It takes a few microseconds and
  returns before the work runs.
  where: cudaLaunchKernel and its kind, in CPU lanes and in the chain in explain
  see: launch to start, kernel, overhead-bound
  also: launch, launches, launched, launching

copy
  Moves data between memories: HtoD is host to device, DtoH is device to host, DtoD stays on the device. The
  first two cross PCIe or NVLink, which is many times slower than the device's own memory.
  where: Memcpy bars on the GPU's lanes
  see: pinned memory, copy-bound
  also: copy, copies, copied, memcpy, HtoD, DtoH, DtoD, PtoP

memset
  Sets memory on the device to a value. Libraries often clear a few bytes (counters, flags) right before a
  kernel.
  where: Memset bars on the GPU's lanes
  see: copy, launch
  also: memset

pinned memory
  Host memory that the GPU can copy directly. Copies from or to ordinary (pageable) memory go in pieces
  through a pinned buffer, and the CPU waits for part of that.
  where: Pinned or Pageable in the names of copies
  see: copy
  also: pinned, pageable, pinned memory, pageable memory

SM
  A streaming multiprocessor, the GPU's compute unit: an H100 or H200 (SXM) has 132. Each block of a kernel
  runs on one SM; an SM runs several blocks at once if they fit.
  where: in explain: blocks for so many multiprocessors
  see: block, occupancy
  also: SM, multiprocessor

warp
  32 threads of a block that execute the same instruction together. AMD calls it a wavefront: 64 threads on
  its data-center GPUs.
  where: warps per SM in the details of a kernel
  see: block, occupancy
  also: warp, wavefront

block
  A group of up to 1,024 threads that runs on one SM and shares its shared memory. Blocks run in any order,
  as many at once as fit.
  where: the details of a kernel
  see: grid, SM, warp
  also: block

grid
  All the blocks of one launch. With fewer blocks than SMs, part of the GPU has nothing to do.
  where: the details of a kernel
  see: block, SM
  also: grid

SM active
  The share of the multiprocessors that had at least one warp to run, as a counter that is sampled says. A GPU
  counts as busy while any kernel runs, even if most of them have nothing to do.
  where: the counters; summary and efficiency
  see: block, occupancy
  also: SMs active

occupancy
  How many warps an SM holds, as a share of the most it can; registers, shared memory and the grid limit it.
  Low is not slow, as fast matmuls show, and the 0 that Kineto writes for kernels with much shared
  memory is not a measurement.
  where: the details of a kernel
  see: warp, registers, shared memory
  also: occupancy

registers
  A thread's own memory, the fastest there is. An SM has a fixed number of them (65,536 on NVIDIA), so more
  registers per thread means fewer warps at once.
  where: the details of a kernel
  see: occupancy, shared memory
  also: register

shared memory
  Fast on-chip memory that the threads of a block share, up to 227 KiB per block on an H100. The more a
  block takes, the fewer blocks fit on an SM.
  where: the details of a kernel
  see: block, occupancy, stages
  also: shared memory

L2
  The cache that all SMs share, 50 MB on an H100. Data that a kernel has just written may still be there for
  the next one, which then reads it faster than from HBM.
  where: in explain, where a kernel moves more than the memory can
  see: HBM
  also: L2, L2 cache

HBM
  The GPU's main memory, where tensors live: 4.8 TB/s on an H200. A kernel that does little arithmetic per
  element can only be as fast as this memory.
  where: shares of the bandwidth in explain and in efficiency
  see: L2, roofline, fusion
  also: HBM, bandwidth, bound by memory, memory traffic

tensor core
  A unit in each SM that multiplies small matrices in bf16, fp16, TF32, FP8 and similar types. It is many
  times faster than the ordinary units, which fp32 uses unless TF32 is allowed.
  where: the details of a matmul kernel
  see: GEMM, peak
  also: tensor core

peak
  The most a device can do, by its data sheet: FLOP/s for a number type, B/s for memory. Large
  matmuls often reach 60 to 80%; no program reaches 100%.
  where: shares of the peak in explain and in efficiency
  see: roofline, FLOP
  also: peak

roofline
  A kernel is limited by arithmetic or by memory, whichever takes longer; with little arithmetic per byte it
  is memory. Its share of each peak shows which limit it is close to.
  where: efficiency
  see: peak, HBM, FLOP
  also: roofline

FLOP
  One floating-point addition or multiplication; FLOP/s is how many per second. Multiplying M x K by K x N
  takes 2·M·K·N.
  where: explain and efficiency, for ops whose shapes were recorded
  see: peak, GEMM
  also: FLOP, FLOP/s, TFLOP/s, GFLOP/s

# kernels

elementwise
  Each output element depends on one element of each input, as in add, mul or gelu. Nearly all the time goes
  to reading and writing memory.
  where: explain on most of PyTorch's own kernels
  see: HBM, fusion
  also: elementwise, pointwise

reduction
  Many elements become one, as in sum, mean or a norm. Most of the time goes to reading memory.
  where: explain on kernels that reduce
  see: HBM, elementwise
  also: reduction

vec8
  An elementwise kernel whose threads read and write 8 elements at a time (vec4: 4). It needs elements in
  order and aligned addresses.
  where: names of PyTorch's elementwise kernels
  see: elementwise
  also: vec2, vec4, vec8, vec16

fusion
  Several ops in one kernel: intermediate values stay in registers instead of going to memory and back.
  torch.compile does it; libraries do it for attention and for optimizer updates.
  where: Triton kernels with several ops in their name
  see: epilogue, HBM, Triton
  also: fusion, fuse, fused, fusing

foreach
  One op over a whole list of tensors, such as all parameters. It takes a few kernels for the list, where a
  loop would launch one per tensor.
  where: aten::_foreach_… in an optimizer
  see: fusion, launch
  also: foreach*, _foreach*

flash attention
  Attention in one kernel that walks over the keys in pieces, so the matrix of scores is never written to
  memory. PyTorch has several behind scaled_dot_product_attention: flash, memory-efficient, cuDNN.
  where: explain on attention
  see: fusion, HBM
  also: flash, flash attention, scaled_dot_product*

spread
  The same kernel on the same shapes takes different times: clocks follow heat and power, and caches and
  neighboring work matter. Compare medians, not single runs.
  where: min, median and max in the details
  see: cold start
  also: median, spread

# matmuls

GEMM
  A matrix multiplication (matmul), C = α·A·B + β·C. In M x K x N, M is the rows of A, K is what is summed
  over, N is the columns of B.
  where: kernels of linear layers
  see: tile, tensor core, FLOP
  also: GEMM, gemm, matmul, matrix product, matrix multiplication, M x K x N

tile
  The part of the result that one block computes at a time: 64x8 is 64 x 8 elements. Few or badly fitting
  tiles leave SMs idle.
  where: names of matmul kernels
  see: stages, cluster, SM
  also: tile

64x8
  In an nvjet kernel's name the first pair is the tile; in the second, such as 64x16, 64 is how much of K is
  loaded at a time and 16 is the number of stages. The third pair is the cluster.
  where: names that begin with nvjet; explain spells them out
  see: tile, stages, cluster
  also: 64x8

stages
  How many pieces of A and B a kernel keeps in flight: it loads the next while it multiplies. More stages
  hide memory latency and cost shared memory.
  where: names of matmul kernels
  see: tile, shared memory
  also: stage

cluster
  On Hopper and later: a few blocks that are guaranteed to run at the same time on nearby SMs and can read
  each other's shared memory. In a name, 1x2 is a cluster of two blocks.
  where: names of matmul kernels
  see: block, shared memory
  also: cluster

cooperative
  In a matmul kernel's name: two groups of warps share one tile (CUTLASS says so; nvjet's coopA and coopB are
  not documented). In a launch: the kernel's blocks may wait for each other.
  where: names of matmul kernels; cudaLaunchCooperativeKernel
  see: warp, tile
  also: cooperative, coopA, coopB

epilogue
  What a GEMM kernel does to the result before writing it: add a bias, apply an activation, convert the
  type. It saves a separate kernel, which would read and write the whole result again.
  where: +bias in the name of a matmul kernel
  see: fusion, GEMM, HBM
  also: epilogue

split K
  The sum over K is divided among blocks and the parts are added at the end, often by another kernel. It
  fills the device when the result has few tiles and K is long.
  where: names of matmul kernels
  see: tile, GEMM
  also: split K, split-K, splitk

tnt
  A matmul's layout: n means the matrix is read as is, t transposed; first A, then B, as BLAS sees them
  (column-major). What nvjet's third letter means is not documented.
  where: names of matmul kernels
  see: view and stride, GEMM
  also: TNT, NNT, NTN, TNN, NNN, NTT, TTN, TTT, tnt, nnt, ntn, tnn, nnn, ntt, ttn, ttt

bz
  Appears in nvjet names where nothing is added to the result (beta is zero); badd appears where C is
  added. NVIDIA does not document it, but the ops agree.
  where: names that begin with nvjet
  see: GEMM, epilogue
  also: bz, badd

cuBLAS
  NVIDIA's matmul library; it picks one of many kernels by shape, type and layout. nvjet is its
  kernel family for Hopper and later.
  where: family in explain
  see: GEMM, tile
  also: cuBLAS, cuBLASLt, nvjet*

# PyTorch

operator
  One step of PyTorch, such as aten::mm. Its bar is the CPU time to choose and launch; what it launched runs
  on the GPU later.
  where: aten::… on the CPU's lanes
  see: dispatch, launch, self and total
  also: operator, op

view and stride
  A view is another tensor over the same memory with its own sizes and strides: no element moves and nothing
  is launched. A stride is the distance, in elements, from one index of a dimension to the next; a transpose
  just swaps two strides.
  where: Input Strides in the details; explain reads them out
  see: in place, operator
  also: view, stride, metadata only, transposed

in place
  An op whose name ends in _ overwrites its input. That saves memory and often a copy; autograd raises an
  error if it still needs the old values.
  where: ops such as aten::add_
  see: view and stride, caching allocator
  also: in place

self and total
  Total time includes the ops and calls inside an op; self time does not. Sort by self to find where time
  goes, by total to find who asked for it.
  where: the columns of the ops; explain
  see: operator
  also: self, total

backward
  Autograd runs the recorded operations in reverse, for a GPU on a thread of its own. MmBackward0 is the
  backward of one aten::mm.
  where: autograd::engine::evaluate_function on a CPU lane
  see: operator, correlation and flow
  also: backward, backward pass, autograd*

caching allocator
  PyTorch keeps GPU memory that tensors give back and reuses it without asking the driver. Reserved is what
  it holds, allocated is what tensors use of it.
  where: memory counters, with profile_memory; cudaMalloc where it had to ask
  see: allocation
  also: caching allocator, allocator, reserved

synchronization
  The CPU waits until the GPU has finished what was asked before; item(), print and .cpu() do it too.
  Meanwhile it launches nothing, so the queue runs empty.
  where: cudaStreamSynchronize and its kind on a CPU lane
  see: sync, launch to start
  also: synchronization, synchronize, synchronizing, cudaDeviceSynchronize, cudaStreamSynchronize

data loader
  Feeds batches to a training loop. Its workers, if any, are separate processes: the trace shows the wait
  for a batch, not their work.
  where: enumerate(DataLoader)#…
  see: host
  also: data loader, data loading, DataLoader

CUDA graph
  Work recorded once and launched again with a single call. It takes launches and PyTorch's own overhead off
  the CPU, but shapes and addresses must stay the same.
  where: cudaGraphLaunch
  see: launch, overhead-bound
  also: CUDA graph, graph launch, graph launches, cudaGraph*

cold start
  The first run sets up the device, loads kernels, creates library handles, asks for memory, maybe compiles.
  It makes the first step long once and says nothing about later ones.
  where: the first step; the cause initialisation
  see: warm-up, initialisation, Lazy Function Loading
  also: cold start, cold, first use, first-use, used for the first time

warm-up
  Steps run before the measurement, so that one-time costs do not show in it. You still pay them: a short
  job or a first request may spend most of its time there.
  where: the schedule of the profiler
  see: cold start, schedule
  also: warm-up, warm up

# torch.compile

torch.compile
  TorchDynamo turns Python into a graph, AOTAutograd adds the backward, Inductor generates kernels. The
  first call compiles; later calls check guards and run the result.
  where: Torch-Compiled Region
  see: guard, Inductor, recompilation
  also: torch.compile, TorchDynamo, AOTDispatcher, Torch-Compiled Region

guard
  A condition for reusing compiled code, such as a shape, a type or a flag. All are checked on every call, a
  few microseconds for small and large tensors alike; code outside torch.compile has none.
  where: TorchDynamo Cache Lookup
  see: recompilation, torch.compile
  also: guard, TorchDynamo Cache Lookup

recompilation
  When guards fail, say for a new shape, the function is compiled again. In Torch-Compiled Region: 0/1, 0 is
  the function and 1 says that it was compiled a second time; TORCH_LOGS=recompiles says why.
  where: Torch-Compiled Region with a second number above 0
  see: guard, static shapes
  also: recompil*

static shapes
  The first compilation treats sizes as constants; when one changes, it compiles again with that size left
  open (dynamic). mark_dynamic declares it up front.
  where: Torch-Compiled Region with a second number above 0
  see: recompilation, guard
  also: static shape, dynamic shape

graph break
  Something torch.compile cannot trace: the graph ends, Python runs it, and a new graph begins. Each break
  costs guards and launches and stops fusion; TORCH_LOGS=graph_breaks lists them.
  where: several Torch-Compiled Regions in what should be one
  see: guard, fusion
  also: graph break

Inductor
  The code generator of torch.compile: Triton kernels for elementwise ops and reductions, library calls for
  matmuls. TORCH_LOGS=output_code prints the code.
  where: ## Call CompiledFxGraph
  see: Triton, fusion
  also: Inductor, CompiledFxGraph

Triton
  A language for writing GPU kernels in Python. In triton_poi_fused_gelu_mul_0, poi is the kind (pointwise;
  red and per are reductions), then come the fused ops and a number.
  where: kernels named triton_…
  see: Inductor, fusion
  also: Triton, triton

# several GPUs

rank
  One process of a distributed job, usually with one GPU. A trace covers one rank unless several are opened
  together.
  where: the header of a distributed trace
  see: collective
  also: rank

collective
  Communication among all ranks, such as an all-reduce, which gives every rank the sum. It cannot end before
  the slowest rank arrives.
  where: nccl:… on the CPU, ncclDevKernel_… on the GPU
  see: rank, exposed, NCCL
  also: collective, all-reduce, communication

NCCL
  NVIDIA's library of collectives (RCCL on AMD). Ring and tree are routes for the data; LL, LL128 and Simple
  are protocols, from low latency to high bandwidth.
  where: names of collective kernels
  see: collective
  also: NCCL, RCCL, nccl*

exposed
  Communication while the GPU computes nothing: it costs time. Communication hidden behind kernels costs
  little.
  where: the steps, and the verdict
  see: collective, communication-bound
  also: exposed, while nothing computes, hidden

# the trace

ProfilerStep
  The annotation of one step, from one prof.step() to the next, counted from 0. If a recording begins at #2,
  steps 0 and 1 were left out: wait skips steps, warmup runs them and discards what was recorded.
  where: the outermost bar of the main CPU lane
  see: schedule, annotation
  also: ProfilerStep*

window
  A step's time on the clock: from its start to the start of the next step; the last one ends with the GPU
  work that it launched. On CPU is the length of its bar on the CPU alone.
  where: the steps
  see: ProfilerStep, busy share
  also: step's window

schedule
  schedule(wait=1, warmup=1, active=3) skips one step, profiles one and discards it, and records three. The
  warm-up step keeps the profiler's own start-up out of the recording.
  where: numbers of steps
  see: ProfilerStep, warm-up
  also: schedule, warmup

annotation
  A named range, set by the program with record_function or by PyTorch itself, for instance around an
  optimizer's step. Its bar is the CPU time inside it.
  where: bars on the CPU's lanes
  see: shadow, ProfilerStep
  also: annotation, record_function

shadow
  An annotation as seen on the device: from the first to the last kernel launched inside it. Pauses count,
  so it can be much longer than its kernels, and its percentage far above 100.
  where: the lane annotations of a GPU
  see: annotation, launch
  also: shadow

correlation and flow
  A launch and the work it launched carry the same number, the correlation; a forward op and its backward
  are linked by another. These links draw the arrows and build the chain in explain.
  where: correlation in the details; the chain in explain
  see: launch, External id
  also: correlation, flow

External id
  The number by which the profiler ties calls and kernels to their op. Ev Idx and Record function id just
  number the CPU's events.
  where: the details
  see: correlation and flow
  also: External id, Ev Idx, Record function id

Activity Buffer Request
  The profiler asks for memory to record GPU events in, and the launch that needs it waits. Without a
  profiler this time is not spent.
  where: overhead on a CPU lane
  see: profiler, warm-up
  also: Activity Buffer Request, buffer request

Lazy Function Loading
  CUDA loads a kernel's code on first use; Runtime Triggered Module Loading is the same for a whole module.
  The profiler lists it as overhead, but the program pays it without a profiler, too.
  where: overhead on a CPU lane
  see: cold start, initialisation
  also: Lazy Function Loading, Runtime Triggered Module Loading, lazy loading

INVALID
  A runtime call whose name Kineto does not know: its table is older than the CUDA in use. The trace does
  not say what was called.
  where: calls on a CPU lane
  see: launch
  also: INVALID

# idle time

gap
  A stretch in which nothing runs on any stream of a device. It is split by what held up the next work, and
  named after the largest part.
  where: the gaps; empty stretches of the GPU's lanes
  see: busy share, overhead-bound
  also: gap, idle, idle time, was idle

busy share
  The time in which a device runs anything, as a share of a stated time, such as the step or the recording.
  Busy is not fast: one small kernel counts as much as a large one.
  where: the verdict and the steps
  see: gap, occupancy
  also: busy, busy share

launch to start
  The delay from a launch on the CPU to the start of its work on the GPU. A few microseconds mean that the
  GPU was waiting for it; more, that work was queued and the CPU is ahead.
  where: the counter delay; the chain in explain
  see: queue depth, launch
  also: launch to start, launch → start, delay, after its launch

queue depth
  How many launched kernels, copies and memsets are waiting. 0 means the GPU waits for the CPU; many mean
  the GPU sets the pace.
  where: the chart queue
  see: launch to start, stream
  also: queue depth, was queued behind, it was queued behind, nothing was queued, nothing is queued

lead-in
  The time before the first GPU event: the CPU has started, the GPU has nothing yet. The verdict leaves
  it out, unless every step has it.
  where: the overview, below what counts; Enter shows the stretch and its causes
  see: Activity Buffer Request, cold start
  also: lead-in

in flight
  The beginning of a recording, in which work from before it may still run: such work is not in the trace. The
  verdict leaves that time out.
  where: the overview, below what counts; the steps
  see: lead-in, queued
  also: work in flight

not recorded
  The profiler lost the device events of some launches, or stopped while their work was queued. Time in which
  such work may have run is not known to be idle, so the verdict leaves it out.
  where: the overview, below what counts; the steps
  see: in flight, launch
  also: lost launch

initialisation
  The CPU was in something that first use of the GPU makes slow: creating the context, loading code,
  creating library handles. It happens once; the verdict leaves it out.
  where: a cause of gaps
  see: cold start, Lazy Function Loading
  also: initialisation, initialization, first use of the GPU, the first use of the GPU, the GPU is first used

profiler
  The profiler itself was at work, for instance asking for a buffer. Without a profiler this time is not
  spent; the verdict leaves it out.
  where: a cause of gaps
  see: Activity Buffer Request
  also: profiler itself, profiler's own

sync
  The CPU had waited for the device and only then launched more, so the queue had run empty. Look for
  item(), print, .cpu() or a synchronize in the loop.
  where: a cause of gaps
  see: synchronization
  also: sync, had waited for the device, had waited for the GPU

allocation
  The CPU was in cudaMalloc, cudaFree or similar. PyTorch's allocator avoids them after the first steps,
  unless sizes keep changing or memory is short.
  where: a cause of gaps
  see: caching allocator
  also: allocation, allocating or freeing

dispatch
  The CPU was inside ops: PyTorch's own overhead, or ops that work on the CPU. Fewer and larger ops,
  torch.compile or a CUDA graph reduce it.
  where: a cause of gaps
  see: operator, CUDA graph
  also: dispatch, busy inside ops

host
  The CPU was outside any op: Python, a data loader, logging, sleep. Record with with_stack to see which
  code.
  where: a cause of gaps
  see: data loader, dispatch
  also: host, outside any op

launch (cause)
  The launch was on its way: the call itself plus the few microseconds until the device starts. Many small
  kernels that wait for each other show a lot of it.
  where: a cause of gaps
  see: launch, CUDA graph
  also: launch was on its way, launch latency

queued
  The next work had been launched but did not start, and nothing recorded was running. It waited for
  something else: another stream, an event, another rank, or work from before the recording.
  where: a cause of gaps
  see: stream, queue depth
  also: work was queued, it was queued

back to back
  The time between two kernels of the same stream, up to 5 µs, with nothing to wait for. It is normal; over
  very many kernels it adds up, and fusion or a CUDA graph reduces it.
  where: a cause of gaps
  see: fusion, CUDA graph
  also: back to back, one kernel followed another, from one kernel to the next

unlinked
  The trace has no launch for the work that ended the gap. So it is not known why the device was idle.
  where: a cause of gaps
  see: correlation and flow
  also: unlinked, does not say what launched

# verdicts

overhead-bound
  For at least half of the step the GPU waits for the CPU. A faster GPU would change little: launch less
  often, or make each launch do more.
  where: the verdict
  see: dispatch, host, CUDA graph
  also: overhead-bound

compute-bound
  The GPU computes for at least 80% of the step: its kernels set the pace. Fewer FLOPs, fewer bytes or
  faster kernels help; a faster CPU does not.
  where: the verdict
  see: roofline, HBM
  also: compute-bound

communication-bound
  For at least half of the step the GPU only communicates, or waits for other ranks in a collective. Overlap
  it with compute, send less, or find the slow rank.
  where: the verdict
  see: exposed, collective
  also: communication-bound

copy-bound
  For at least half of the step the GPU only copies. Keep data on the GPU, or use pinned memory and
  non_blocking=True so that copies overlap with kernels.
  where: the verdict
  see: copy, pinned memory
  also: copy-bound

mixed
  No part takes half of the step, and compute takes less than 80%. The two largest parts are named: start
  with the first.
  where: the verdict
  see: overhead-bound, compute-bound
  also: mixed

CPU-only
  The trace has no GPU events, so only the CPU's time can be judged: ops, communication, waiting.
  Recording a GPU needs ProfilerActivity.CUDA.
  where: the verdict
  see: operator, self and total
  also: CPU-only

not known
  There is nothing to judge by: no GPU events, or none in this part. The tool says so instead of guessing.
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
    "an idle GPU lane": gap(),
    "a full GPU lane": judged("compute-bound"),
    "a long first step": examples.finding("cold_start", "initialisation", "wide_first_step"),
    "many short kernels": examples.finding("short_calls"),
    "a growing delay": examples.most_delayed,
    "a long synchronize call": longest(Kind.RUNTIME, name="Synchronize"),
    "an op with no kernel": _view,
    "total far above self": examples.parent,
    "a copy before a matmul": examples.finding("copy_before_product"),
    "host and device": first(*DEVICE_WORK),
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
    "window": first(Kind.ANNOTATION, Kind.CPU_OP, name="^ProfilerStep#"),
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
    "lead-in": first(*DEVICE_WORK),
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
"""The finder for each term that a trace can have an example of."""


def _read(text: str) -> Iterator[Term]:
    group = ""
    for block in text.strip().split("\n\n"):
        if block.startswith("# "):
            group = block[2:]
            continue
        name, *lines = block.splitlines()
        fields, field = {"": "", "where": "", "see": "", "also": ""}, ""
        for line in lines:
            key, colon, value = line.strip().partition(": ")
            if colon and key in fields:
                field = key
            fields[field] = f"{fields[field]} {value if colon and key in fields else line.strip()}".strip()
        see, spelled = (tuple(filter(None, fields[key].split(", "))) for key in ("see", "also"))
        yield Term(name, group, fields[""], fields["where"], see, spelled or (name,), FIND.get(name))


TERMS = tuple(_read(TEXT))
