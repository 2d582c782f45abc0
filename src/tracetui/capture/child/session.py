"""One capture from start to end, inside the child: torch, device, workload, steps, files."""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import device as devices
from .channel import Channel, Failure, flush
from .export import write_files
from .recording import Job, record_steps
from .user_code import ScriptRecorder, how_it_left, load_callable

if TYPE_CHECKING:
    import torch

OWN_CODE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main() -> None:
    """Read the job, capture, and exit: 0 when all files are written, else 1 after a "failed" event."""
    channel = Channel()
    faulthandler.enable(all_threads=False)
    job = channel.read_job()
    try:
        info, files = capture(job, channel)
    except Failure as failure:
        flush()
        channel.send("failed", kind=failure.kind, message=str(failure))
        sys.exit(1)
    except BaseException as error:
        _print_error(error)
        flush()
        kind, message = explain(error, job)
        channel.send("failed", kind=kind, message=message)
        sys.exit(1)
    flush()
    channel.send("done", info=info, files=files)


def capture(job: Job, channel: Channel) -> tuple[dict[str, Any], dict[str, str]]:
    """Run the job; returns what the .meta.json says about the machine, and the files (suffix to path).

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

    status = 0
    if job["kind"] == "script":
        recorder = ScriptRecorder(job, device, channel)
        prof = recorder.run()
        if recorder.failure is not None:
            status = _tell_failure(recorder.failure, job, channel)
    else:
        step = _build(job, device)
        compiled = job["mode"] if job["compile"] else None
        prof = record_steps(job, device, step, channel, compiled)

    files = write_files(prof, job, device.type, channel)
    info: dict[str, Any] = {
        "torch": version,
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "device": devices.describe(device),
    }
    if status:
        info["exit_status"] = status
    return info, files


def _tell_failure(error: BaseException, job: Job, channel: Channel) -> int:
    """Report how a script failed after its steps were recorded; returns its exit status."""
    status = 1
    if isinstance(error, SystemExit):
        how = how_it_left(error)
        status = error.code if isinstance(error.code, int) else status
    else:
        _print_error(error)
        how = f"failed with {type(error).__name__}"
    flush()
    channel.note("script_failed", f"{job['target']} {how}, after its steps were recorded")
    return status


def _build(job: Job, device: torch.device) -> Callable[[], object]:
    import torch

    from ..workloads import Setup

    def compiler(function: Any) -> Any:
        return torch.compile(function, mode=job["mode"]) if job["compile"] else function

    if job["kind"] == "callable":
        function: Callable[[], object] = compiler(load_callable(job["target"]))
        return function
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


def explain(error: BaseException, job: Job) -> tuple[str, str]:
    """The kind and the one line for an error that the workload or the user's code raised."""
    torch = sys.modules.get("torch")
    out_of_memory: type | None = getattr(torch, "OutOfMemoryError", None)
    lines = str(error).strip().splitlines()
    line = type(error).__name__ + (f": {lines[0]}" if lines else "")
    if isinstance(error, KeyboardInterrupt):
        return "killed", "interrupted"
    if out_of_memory is not None and isinstance(error, out_of_memory):
        # torch goes on with advice on its allocator; how much was wanted and how much there is comes first.
        return "out_of_memory", f"{job['target']}: {line.partition(' Including non-PyTorch')[0]}"
    if isinstance(error, UnicodeDecodeError) and _raised_in_profiler(error):
        # torch 2.13 with stacks, about one time in forty: an event's name is not the text it was.
        return "torch", "PyTorch could not read the names in its own recording (it happens): capture again"
    return "workload", f"{job['target']} failed: {line}"


def _raised_in_profiler(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    name = frames[-1].filename.replace("\\", "/") if frames else ""
    return name.endswith(("torch/autograd/profiler.py", "torch/autograd/profiler_util.py"))


def _print_error(error: BaseException) -> None:
    """The traceback from the first frame on that is not ours: how the user's code ran."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None:
        name = frames.tb_frame.f_code.co_filename
        if not (name.startswith(OWN_CODE) or "runpy" in name or "importlib" in name):
            break
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)
