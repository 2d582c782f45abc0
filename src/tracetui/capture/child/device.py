"""Choosing torch and the device: the checks before anything is captured."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from .channel import Channel, Failure

if TYPE_CHECKING:
    import torch

OLDEST_TORCH = (2, 4)


def import_torch() -> str:
    """Import torch and return its version. Raises `Failure` if there is none or it is too old."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise Failure("no_torch", f"importing torch failed: {error}") from error
        raise Failure(
            "no_torch", f"PyTorch is not installed. Install it: {sys.executable} -m pip install torch"
        ) from error
    except (ImportError, OSError) as error:  # a broken installation, e.g. a CUDA library that is missing
        raise Failure("no_torch", f"importing torch failed: {error}") from error
    version = str(getattr(torch, "__version__", "0.0"))
    match = re.match(r"(\d+)\.(\d+)", version)
    if not match or (int(match[1]), int(match[2])) < OLDEST_TORCH:
        raise Failure(
            "old_torch",
            f"torch {version} is too old, 2.4 or newer is needed. "
            f"Update it: {sys.executable} -m pip install --upgrade torch",
        )
    return version


def choose(wanted: str, channel: Channel) -> torch.device:
    """The device to capture on. "auto" takes the first GPU, or the CPU with a notice.

    Raises `Failure` if the requested device does not exist.
    """
    import torch

    if wanted == "auto":
        if torch.cuda.is_available():
            wanted = "cuda"
        elif torch.xpu.is_available():
            wanted = "xpu"
    if wanted in ("auto", "cpu"):
        tell_no_gpu(wanted, channel)
        wanted = "cpu"
    device = torch.device(wanted)
    backend = _backend(device)
    if backend is None:
        return device
    if not backend.is_available():
        kind = device.type.upper()
        raise Failure("no_device", f"torch {torch.__version__} sees no {kind} device; try --device cpu")
    count = backend.device_count()
    index = device.index or 0
    if index >= count:
        raise Failure("no_device", f"no device {device}: torch sees {count}, counted from 0")
    return torch.device(device.type, index)


def tell_no_gpu(wanted: str, channel: Channel) -> None:
    """Say that the trace will have no GPU lane, and why. `wanted`: "cpu", or "auto" if no GPU was found."""
    import torch

    why = ""
    if wanted == "auto":
        built = torch.version.cuda or torch.version.hip
        why = "torch sees no GPU: " if built else f"torch {torch.__version__} is built without GPU support: "
    channel.note("no_gpu", f"{why}capturing on the CPU, so the trace has no GPU lane")


def gpu_backends() -> list[Any]:
    """torch.cuda and torch.xpu, as far as this machine may have such a GPU. Touches none of them.

    To ask PyTorch would start CUDA in this process, and a process that it forks could no longer use it.
    """
    import torch

    found = []
    files = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
    if torch.backends.cuda.is_built() and (sys.platform != "linux" or any(map(os.path.exists, files))):
        found.append(torch.cuda)
    if torch.xpu._is_compiled() and (sys.platform != "linux" or os.path.exists("/dev/dri")):
        found.append(torch.xpu)
    return found


def in_use() -> torch.device:
    """The device that the program has started: its current GPU, else the CPU."""
    import torch

    for kind in ("cuda", "xpu"):
        backend = getattr(torch, kind)
        if backend.is_initialized():
            return torch.device(kind, backend.current_device())
    return torch.device("cpu")


def _backend(device: torch.device) -> Any:
    """torch.cuda or torch.xpu; None for a CPU."""
    import torch

    return None if device.type == "cpu" else getattr(torch, device.type)


def select(device: torch.device) -> None:
    """Make `device` the current one, so that code that asks for "cuda" gets it."""
    if backend := _backend(device):
        backend.set_device(device)


def synchronize(device: torch.device) -> None:
    """Wait until the device is idle; does nothing on a CPU."""
    if backend := _backend(device):
        backend.synchronize(device)


def name(device: torch.device) -> str:
    """The device's own name, e.g. "NVIDIA H200"."""
    backend = _backend(device)
    return str(backend.get_device_name(device)) if backend else _cpu_name()


def machine(device: torch.device) -> dict[str, Any]:
    """What the .meta.json says about PyTorch, Python and the device."""
    import torch

    info: dict[str, Any] = {"type": device.type, "index": device.index, "name": name(device)}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        info["memory_bytes"] = properties.total_memory
        info["multiprocessors"] = properties.multi_processor_count
        info["cuda"] = torch.version.cuda
        info["hip"] = torch.version.hip
        info["driver"] = _driver_version()
    else:
        info["threads"] = torch.get_num_threads()
    version, python = str(torch.__version__), sys.version.split()[0]
    return {"torch": version, "python": python, "executable": sys.executable, "device": info}


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine()


def _driver_version() -> str | None:
    """The NVIDIA driver's version as nvidia-smi shows it; None if NVML is not available."""
    try:
        nvml = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(96)
        if nvml.nvmlInit_v2() != 0:
            return None
        try:
            if nvml.nvmlSystemGetDriverVersion(text, len(text)) != 0:
                return None
        finally:
            nvml.nvmlShutdown()
        return text.value.decode("ascii", "replace")
    except (OSError, AttributeError):
        return None
