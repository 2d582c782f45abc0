"""Explains calls of the CUDA, HIP and Level Zero runtimes and drivers. The first pattern that matches
counts."""

from __future__ import annotations

import re

_CALLS = (
    (
        r"GraphLaunch",
        "Launches a recorded CUDA graph: all its kernels with one call. The CPU does not wait for them to "
        "run.",
    ),
    (
        r"LaunchCooperative",
        "Launches a kernel whose blocks may wait for each other. All of them must fit on the GPU at once.",
    ),
    (
        r"LaunchHost",
        "Puts a CPU function into a stream's queue. A thread of the driver runs it when the stream gets "
        "there.",
    ),
    (
        r"LaunchKernelEx",
        "Puts a kernel into a stream's queue, with attributes such as clusters of blocks, which "
        "cudaLaunchKernel cannot ask for. The CPU does not wait for it to run.",
    ),
    (
        r"cuLaunchKernel$|hipModuleLaunch|ModuleLaunch",
        "Puts a kernel into a stream's queue with the driver's call, which takes code loaded at run time, "
        "such as Triton's. The CPU does not wait for it to run.",
    ),
    (r"Launch", "Puts a kernel into a stream's queue. The CPU does not wait for it to run."),
    (
        r"[Mm]emcpy\w*Async",
        "Puts a copy into a stream's queue. With pageable host memory the CPU waits for part or all of it, "
        "with pinned memory for none.",
    ),
    (r"Memcpy", "Copies memory. The CPU waits until it is over, unless the copy stays within a device."),
    (
        r"Memset\w*Async",
        "Queues a memset: memory is set to a value when the stream gets there. The CPU does not wait for it.",
    ),
    (r"Mem[sS]et", "Sets GPU memory to a value. It is short on the GPU; its cost is the call."),
    (
        r"(Device|Ctx|Stream|Event|Thread|Host|Queue)Synchronize|EventWait$|^synchronize",
        "The CPU waits here until the GPU has finished earlier work. Its time is the GPU's "
        "time, seen from the CPU.",
    ),
    (r"(Event|Stream)Query", "Asks whether the GPU has gotten this far. It does not wait."),
    (
        r"EventRecord|recordEvent",
        "Puts a mark into a stream, for others to wait for or to measure time. The CPU does not wait.",
    ),
    (r"StreamWaitEvent", "Makes a stream wait for a mark in another one. The CPU goes on."),
    (r"EventElapsedTime", "Reads the time between two marks. It launches nothing."),
    (
        r"(Event|Stream)(Create|Destroy)",
        "Makes or removes a stream or an event. It launches nothing; the first of them can be slow.",
    ),
    (
        r"(Malloc|MemAlloc|Free)\w*Async",
        "Allocates or frees memory in stream order. It does not wait for the GPU.",
    ),
    (
        r"HostAlloc|HostMalloc|MallocHost|HostRegister",
        "Pins host memory, so that copies need no detour. It is slow, and meant to be done once.",
    ),
    (
        r"Malloc|MemAlloc|MemCreate|MemMap|MemSetAccess|MemAddressReserve|ExtMalloc",
        "Asks the driver for memory. It is slow and may wait for the GPU; PyTorch's caching allocator "
        "avoids it after the first steps.",
    ),
    (
        r"Free|MemRelease|MemUnmap",
        "Gives memory back to the driver. It may wait for the GPU; PyTorch's caching allocator does so "
        "only when it has to.",
    ),
    (r"MemGetInfo", "Asks how much GPU memory is free. It launches nothing."),
    (
        r"OccupancyMaxActiveClusters",
        "Asks how many clusters of a kernel fit on the GPU at once. It plans a launch, but launches nothing.",
    ),
    (
        r"OccupancyAvailableDynamicSMem",
        "Asks how much shared memory each block can have if a given number of them share a multiprocessor. "
        "It plans a launch, but launches nothing.",
    ),
    (
        r"Occupancy",
        "Asks how many blocks of a kernel fit on a multiprocessor. It plans a launch, but launches nothing.",
    ),
    (
        r"Func(Get|Set)Attribute|FuncSetCacheConfig",
        "Reads or sets a kernel's properties, such as the shared memory that it may use. It comes before a "
        "launch, but launches nothing.",
    ),
    (
        r"GetFuncBySymbol|GetSymbolAddress|GetProcAddress|GetDriverEntryPoint|LibraryGet|ModuleGet|KernelGet",
        "Looks up the address of a kernel, a variable or a function. The first call may load the code.",
    ),
    (
        r"ModuleLoad|LibraryLoad",
        "Loads code onto the GPU. It happens when a kernel is used for the first time.",
    ),
    (r"ModuleUnload|LibraryUnload", "Removes code from the GPU. It launches nothing."),
    (
        r"StreamIsCapturing|StreamGetCaptureInfo",
        "Asks whether a CUDA graph is being recorded, because some calls are forbidden then. It returns at "
        "once and launches nothing.",
    ),
    (
        r"ThreadExchangeStreamCaptureMode",
        "Sets what a thread may call while a CUDA graph is recorded. It returns at once.",
    ),
    (
        r"Stream(Begin|End)Capture",
        "Begins or ends the recording of a CUDA graph. What is launched in between is noted, not run.",
    ),
    (r"GraphInstantiate", "Makes a recorded CUDA graph ready to launch. It is slow, and done once."),
    (r"Graph(?!ics)", "Builds or changes a CUDA graph. It launches nothing."),
    (
        r"GetErrorString|GetErrorName|GetLastError|PeekAtLastError",
        "Asks for the last error or its name, to check a call. It returns at once and launches nothing.",
    ),
    (r"SetDevice|CtxSetCurrent|CtxPushCurrent|CtxPopCurrent", "Selects the GPU. It launches nothing."),
    (r"CtxCreate|PrimaryCtx|cuInit|hipInit", "Sets up the GPU for this process. It is slow, and done once."),
    (
        r"GetDevice|DeviceGet|PointerGet|DriverGet|RuntimeGet|CtxGet|StreamGet|GetAttribute|Attributes?$|Priority",
        "Asks the runtime something, such as a property of the GPU. It returns at once and launches nothing.",
    ),
    (r"Ipc|Peer", "Lets processes or devices share memory. It launches nothing."),
    (r"Profiler(Start|Stop|Initialize)", "Tells profilers to start or stop. It launches nothing."),
    (
        r"^INVALID$",
        "A call that Kineto has no name for: its table is older than the CUDA in use. The trace does not say "
        "what was called.",
    ),
)
CALLS = tuple((re.compile(pattern), text) for pattern, text in _CALLS)


def runtime_call(name: str) -> str | None:
    """What a runtime or driver call of this name does; None if that is not known."""
    return next((text for pattern, text in CALLS if pattern.search(name[:200])), None)
