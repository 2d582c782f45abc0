"""One capture from start to end, inside the child: torch, device, workload, steps, files."""

from __future__ import annotations

import asyncio
import faulthandler
import importlib
import inspect
import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import device as devices
from .channel import Channel, Failure, flush
from .cuspy import choose
from .export import failed_reading, write_files
from .frames import in_a_line, print_error
from .program import load_callable, run_program
from .recording import Job, record_steps
from .telling import of_the_profiler

if TYPE_CHECKING:
    import torch


def main(arguments: list[str], interrupts: bool) -> None:
    """Read the job and capture. `arguments`: the two descriptors of the channel, or none.

    `interrupts`: whether Ctrl+C raises `KeyboardInterrupt` in the user's code, as Python has it.

    A user's program ends as it would without us. Otherwise this exits: with 0 when all files are written,
    else with 1 after a "failed" event.
    """
    channel = Channel([int(word) for word in arguments])
    job = channel.read_job()
    if interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    program = job["kind"] in ("script", "module")
    if not (program and arguments):  # a program that has our streams says what it would say without us
        faulthandler.enable(all_threads=False)
    if program:
        run_program(job, channel)
        return
    try:
        capture(job, channel)
    except Failure as failure:
        flush()
        channel.send("failed", kind=failure.kind, message=str(failure))
        sys.exit(1)
    except BaseException as error:
        print_error(error)
        flush()
        kind, message = explain(error, job)
        channel.send("failed", kind=kind, message=message)
        sys.exit(1)


def capture(job: Job, channel: Channel) -> None:
    """Run a workload or a callable as the job says, and write what was recorded.

    Raises `Failure` for what a user can mend, and whatever the workload raises.
    """
    if job["kind"] != "workload" and job["device"] == "cpu":
        # A user's code picks its own device. This is how it is kept off the GPUs.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    version = devices.import_torch()
    channel.phase("imported torch", f"torch {version}")
    import torch

    device = devices.choose(job["device"], channel)
    devices.select(device)
    job |= job["by_device"][device.type]
    name = devices.name(device)
    channel.phase("device", name if device.type == "cpu" else f"{device}, {name}")
    torch.manual_seed(job["seed"])
    step = _build(job, device)
    other = job["against"]
    if other is not None:
        torch.manual_seed(job["seed"])
        b = _build(job | other | {"dtype": other["dtypes"][device.type]}, device)
        step = _in_turn(step, b, device)
        job["target"] += f" against {other['target']}"  # what errors name
        for name in ("warmup_steps", "wait", "schedule_warmup", "active"):
            job[name] *= 2
    choose(job, device.type, channel)
    compiled = next((one["mode"] for one in (job, other) if one is not None and one["compile"]), None)
    prof = record_steps(job, device, step, channel, compiled)
    written = write_files(prof, job, device.type, channel)
    flush()
    info = {"profiler": job["profiler"], "steps": written.steps}
    channel.publish(devices.machine(device) | info, written.files)


def _in_turn(a: Callable[[], object], b: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """A step of A, then one of B, and so on, in annotations of these names. Each ends when its device work
    has: none of it lies in a step of the other one."""
    from torch.profiler import record_function

    turns = itertools.cycle((("A", a), ("B", b)))

    def step() -> object:
        name, function = next(turns)
        with record_function(name):
            result = function()
            devices.synchronize(device)
        return result

    return step


def _build(job: Job, device: torch.device) -> Callable[[], object]:
    import torch

    from ..workloads import Setup

    def compiler(function: Any) -> Any:
        return torch.compile(function, mode=job["mode"]) if job["compile"] else function

    if job["kind"] == "callable":
        return _awaited(compiler(load_callable(job["target"])))
    steps = (
        job["wait"] + job["schedule_warmup"] + job["active"] + (job["warmup_steps"] if job["warmup"] else 0)
    )
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[job["dtype"]]
    module = importlib.import_module("_tracetui_capture.workloads." + job["target"])
    try:
        step: Callable[[], object] = module.build(Setup(device, dtype, compiler, steps), **job["params"])
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0].replace("_", "-")
        raise Failure(
            "usage", f"this needs {package}. Install it: {sys.executable} -m pip install {package}"
        ) from error
    except ValueError as error:
        raise Failure("usage", str(error)) from error
    return step


def _awaited(function: Callable[[], object]) -> Callable[[], object]:
    """The function, whose coroutine runs to its end; all in one event loop, which clients may belong to."""
    loop: asyncio.AbstractEventLoop | None = None

    async def wait(thing: Any) -> object:
        return await thing

    def step() -> object:
        nonlocal loop
        result = function()
        if inspect.isawaitable(result):
            if loop is None:
                loop = asyncio.new_event_loop()
                asyncio.set_event_loop(loop)
            result = loop.run_until_complete(wait(result))
        elif inspect.isasyncgen(result):
            raise Failure(
                "usage", "an asynchronous generator cannot be a step: write a function that runs it"
            )
        return result

    return step


def explain(error: BaseException, job: Job) -> tuple[str, str]:
    """The kind and the one line for an error that the workload or the user's code raised."""
    torch = sys.modules.get("torch")
    out_of_memory: type | None = getattr(torch, "OutOfMemoryError", None)
    line = in_a_line(error)
    if isinstance(error, KeyboardInterrupt):
        return "killed", "interrupted"
    if out_of_memory is not None and isinstance(error, out_of_memory):
        # torch goes on with advice on its allocator; how much was wanted and how much there is comes first.
        return "out_of_memory", f"{job['target']}: {line.partition(' Including non-PyTorch')[0]}"
    if failed_reading(error):
        return "torch", of_the_profiler(error)
    return "workload", f"{job['target']} failed: {line}"
