"""What kinds of kernels, runtime calls and well-known ops are, in a sentence each."""

from __future__ import annotations

import re

KERNEL_KINDS = {
    "memcpy": "A copy.",
    "memset": "Memory is set to a value.",
    "gemm": "A matrix product.",
    "conv": "A convolution.",
    "attention": "Attention in one kernel: scores, softmax and the weighted sum, without writing the scores "
    "to memory.",
    "elementwise": "An elementwise kernel: every output element depends on one element of each input. Its "
    "time is that of reading and writing memory.",
    "reduction": "A reduction: many elements become one. Its time is mostly that of reading memory.",
    "softmax": "A softmax over rows. Its time is mostly that of reading and writing memory.",
    "norm": "A normalisation: statistics over rows or channels, then a scale and a shift.",
    "copy": "A kernel that moves data or changes its type, without arithmetic.",
    "index": "A kernel that gathers or scatters elements by an index.",
    "sort": "A step of a sort.",
    "optimizer": "An optimizer's update of many parameters in one kernel.",
    "collective": "Communication, by its name: devices exchange data. Its time includes the wait for the "
    "slowest rank.",
}

_SPECIAL = (
    ("attention", r"\bbwd\b", "The backward of attention in one kernel: it computes the scores again instead "
     "of reading them."),
    ("attention", r"dot_do_o|convert_d|combine", "A small step beside attention: it prepares sums for it, or "
     "puts its parts together."),
    ("reduction", r"(?:\b|_)(?:scan|cumsum|cumprod)(?:\b|_)", "Running sums (a scan): an output "
     "element depends on all before it."),
    ("reduction", r"\b(?:select|unique|partition|compact)\b", "It picks elements and packs them together."),
    ("reduction", r"\bbwd\b", "The backward of a reduction: a gradient goes to each element that took part."),
    ("elementwise", r"^random\b", "It writes random numbers, and reads nothing."),
)  # fmt: skip
SPECIAL = tuple((kind, re.compile(pattern), text) for kind, pattern, text in _SPECIAL)
"""Within a kind, by the short name."""

COPIES = {
    "HtoD": "A copy from the host's memory to the device.",
    "DtoH": "A copy from the device to the host's memory.",
    "DtoD": "A copy within the device's memory.",
    "PtoP": "A copy from one device to another.",
}

FAMILIES = {
    "cublas": "It comes from cuBLAS.",
    "nvjet": "It comes from cuBLAS, which has kernels of this kind for Hopper and later.",
    "cutlass": "It is built from CUTLASS templates, as cuBLAS, cuDNN and PyTorch use them.",
    "triton": "It was written in Triton, by a compiler or by hand.",
    "aten": "It is one of PyTorch's own kernels.",
    "flash": "It comes from flash attention.",
    "cudnn": "It comes from cuDNN.",
    "nccl": "It comes from NCCL (RCCL on AMD).",
    "rocm": "It comes from AMD's libraries.",
    "ck": "It is built from AMD's Composable Kernel templates.",
    "rocprim": "It comes from rocPRIM, AMD's library of sorts, scans and reductions.",
    "aiter": "It comes from aiter, AMD's kernels for inference.",
    "deepep": "It comes from DeepEP, which sends tokens to the experts of other devices and back.",
    "deep_gemm": "It comes from DeepGEMM, whose FP8 products are compiled for each shape.",
    "flashinfer": "It comes from FlashInfer.",
    "vllm": "It comes from vLLM.",
    "sglang": "It comes from SGLang's kernels.",
    "tensorrt_llm": "It comes from TensorRT-LLM, whose kernels FlashInfer, vLLM and SGLang use, too.",
    "transformer_engine": "It comes from Transformer Engine.",
    "marlin": "It is Marlin: a product with weights of few bits, unpacked on the way.",
    "quickreduce": "It comes from AMD's quick reduce, an all-reduce that may compress what it sends.",
    "fbgemm": "It comes from FBGEMM.",
}

CAUSES = {
    "initialisation": "the CPU was in what the first use of the device makes slow (context, loading of code, "
    "library handles)",
    "profiler": "the profiler itself was at work",
    "sync": "the CPU had waited for the device and then had to launch anew",
    "allocation": "the CPU was allocating or freeing memory",
    "dispatch": "the CPU was busy inside ops (the framework's own overhead, or work that ops do on the CPU)",
    "host": "the CPU was outside any op (Python, data loading, logging)",
    "launch": "the launch was on its way (launch latency)",
    "queued": "the next work was queued, and nothing that was recorded ran on the device (it waited for "
    "another stream, device or process, or for work of before the recording)",
    "back to back": "one kernel followed another",
    "unlinked": "the trace does not tell what launched the next work",
}
"""What was the matter while a device stood idle, by the causes of `tracetui.analysis.causes`."""


_RUNTIME = (
    (r"GraphLaunch", "Launches a recorded CUDA graph: all its kernels with one call."),
    (r"LaunchCooperative", "Launches a kernel whose blocks may wait for one another."),
    (
        r"Launch(Kernel|Host)|ModuleLaunch",
        "Puts a kernel into a stream's queue. The CPU does not wait for it to run.",
    ),
    (
        r"MemcpyAsync|MemcpyPeerAsync",
        "Puts a copy into a stream's queue. With pageable host memory the CPU waits for it.",
    ),
    (r"Memcpy", "Copies memory, and returns when the copy is over."),
    (r"Memset", "Sets memory to a value, on the device."),
    (
        r"(Device|Ctx|Stream|Event|Thread)Synchronize",
        "The CPU waits here until the device has done what was asked before. Its time is the device's time "
        "seen from the CPU.",
    ),
    (r"EventQuery|StreamQuery", "Asks whether the device has got so far, without waiting."),
    (r"EventRecord", "Marks a point in a stream, which others may wait for."),
    (r"StreamWaitEvent", "Makes a stream wait for a mark in another one. The CPU goes on."),
    (
        r"(Malloc|MemAlloc|MemCreate|MemMap|HostAlloc|ExtMalloc)",
        "Asks the driver for memory. It is slow and may wait for the device; PyTorch's caching allocator "
        "avoids it after the first steps.",
    ),
    (r"(Free|MemRelease|MemUnmap)", "Gives memory back to the driver. It may wait for the device."),
    (r"Occupancy", "Asks how many blocks of a kernel fit on a multiprocessor, to plan a launch."),
    (
        r"Func(Get|Set)Attribute",
        "Reads or sets a kernel's properties before a launch, such as its shared memory.",
    ),
    (
        r"ModuleLoad|LibraryLoad",
        "Loads code onto the device: it happens when a kernel runs for the first time.",
    ),
    (r"StreamIsCapturing|StreamGetCaptureInfo", "Asks whether a CUDA graph is being recorded."),
    (
        r"GetDevice|DeviceGet|GetLastError|PeekAtLastError|PointerGet",
        "A question to the runtime, answered at once.",
    ),
)
RUNTIME = tuple((re.compile(pattern), text) for pattern, text in _RUNTIME)

OPS = {
    "aten::item": "Hands a value on the device to Python: the CPU waits until the device has computed it.",
    "aten::_local_scalar_dense": "Copies one value from the device to the CPU, and waits for it.",
    "aten::nonzero": "Its result's size depends on the data: the CPU waits for the device.",
    "aten::empty": "Takes memory from the caching allocator. It launches nothing.",
    "aten::empty_strided": "Takes memory from the caching allocator. It launches nothing.",
    "aten::empty_like": "Takes memory from the caching allocator. It launches nothing.",
    "aten::linear": "y = x·Wᵀ + b. It calls addmm (with a bias) or matmul, after a transposed view of the "
    "weight.",
    "aten::matmul": "A matrix product of any dimensions; it chooses mm, bmm or mv, and makes views to fit.",
    "aten::mm": "A product of two matrices: the library picks a kernel for these shapes and launches it.",
    "aten::addmm": "A product of two matrices, plus a third.",
    "aten::bmm": "A batch of matrix products.",
    "aten::copy_": "Copies into an existing tensor: between devices, types or layouts.",
    "aten::to": "Moves or converts a tensor, if it has to.",
    "aten::contiguous": "Copies a tensor to lie in order in memory, if it does not yet.",
    "TorchDynamo Cache Lookup": "Checks the guards: whether the compiled code still fits these inputs.",
    "Pregraph bytecode": "Python that torch.compile runs before the compiled graph, on every call.",
    "AOTDispatcher Runtime Wrapper Prologue": "Prepares the inputs of a compiled graph, on every call.",
}

OP_PREFIXES = (
    ("autograd::engine::evaluate_function: ", "The autograd engine runs one node of the backward pass."),
    ("Torch-Compiled Region", "A call of code that torch.compile has compiled."),
    (
        "## Call CompiledFxGraph",
        "Runs the graph that Inductor compiled: its Triton kernels and library calls.",
    ),
    ("Optimizer.step#", "The optimizer's update of the parameters."),
    ("Optimizer.zero_grad#", "The gradients are cleared."),
    ("enumerate(DataLoader)#", "The loop takes its next batch from the data loader."),
    ("nccl:", "A collective is handed to NCCL."),
    ("ProfilerStep#", "One step of the profiler's schedule: from one prof.step() to the next."),
    ("nn.Module: ", "A module's forward."),
)

BACKWARD = re.compile(r"\w{1,100}Backward\d{1,3}")
"""The names of autograd's nodes."""

OVERHEAD = {
    "Activity Buffer Request": "The profiler asks for memory to record device events into. The program "
    "waits meanwhile.",
    "Buffer Flush": "The profiler collects what the device has recorded.",
    "Instrumentation": "The profiler prepares code to be recorded.",
    "Resource": "The profiler takes note of a stream or a context.",
    "Lazy Function Loading": "CUDA loads a kernel that is used for the first time. It does so without the "
    "profiler, too.",
    "Runtime Triggered Module Loading": "CUDA loads a module whose code is used for the first time. It "
    "does so without the profiler, too.",
    "Driver Compiler": "The driver compiles code for this device, without the profiler, too.",
    "Command Buffer Full": "The launch waits for a place in the device's queue.",
}
