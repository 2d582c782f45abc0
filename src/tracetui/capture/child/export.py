"""The files of a capture, written into a scratch directory: trace, PyTorch's table, its rows as numbers."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import traceback
from dataclasses import dataclass
from json import dumps
from typing import TYPE_CHECKING, Any

from .channel import Channel, Failure

if TYPE_CHECKING:
    import torch

LARGE = 128 << 20
"""Bytes of a trace, about 450,000 events: for PyTorch's table of so many, Python takes half a minute, in
which the program waits, and 1.5 GB of memory."""
STEP = re.compile(rb'"(ProfilerStep#\d+)"|([\x0e-\x1f])(ProfilerStep#\d+(?=\D))')
"""In JSON a name ends with a quote. In a .pftrace its length comes before it."""
GPU = re.compile(rb'"cat": ?"(?:kernel|gpu_memcpy|gpu_memset)"|\x06(?:Kernel|Memcpy|Memset)')
"""Work of a GPU, in JSON and as the kind of a stage in a .pftrace."""
NAME_WIDTH = 200
"""Longest name in the table: kernels of one template differ far to the right."""


@dataclass(frozen=True)
class Written:
    """The files of a recording, and what is in it."""

    files: dict[str, str]
    """Suffix to path."""
    steps: int
    """How many `ProfilerStep`s the trace has."""
    ops: int
    """0 where nothing else was recorded."""


def write_files(prof: torch.profiler.profile, job: dict[str, Any], kind: str, channel: Channel) -> Written:
    """Write all files into the scratch directory.

    Raises `Failure("disk", ...)` if one cannot be written completely.
    """
    stem = job["stem"]
    try:
        suffix = ".pftrace" if job["pftrace"] else ".json"
        channel.phase("exporting", stem + suffix)
        path = os.path.join(job["directory"], stem + suffix)
        prof.export_chrome_trace(path)
        if job["profiler"] == "cuspy" and kind == "cuda":
            _unpack(path)
        if not job["pftrace"]:
            _mend_end(path)
        size = os.path.getsize(path)
        steps_in_file, gpu = _steps_in(path)
        if job["gzip"] or job["pftrace"]:
            suffix += ".gz"
            channel.phase("exporting", stem + suffix)
            path = _compress(path)
        files = {suffix: path}
        if size > LARGE and not job["averages_json"]:
            text = "the recording is large: PyTorch's own table would take it minutes and is left out"
            channel.note("large", f"{text} (tracetui table has the same numbers)")
            return Written(files, steps_in_file, 1)
        channel.phase("exporting", f"{stem}.txt")
        averages = prof.key_averages()
        steps = [row for row in averages if row.key.startswith("ProfilerStep")]
        timed = any(row.self_device_time_total for row in averages)  # not those of Cuspy
        if len(steps) < len(averages) and kind != "cpu" and not timed and not gpu:
            channel.note("no_kernels", "no GPU work was recorded: the trace has no GPU lane")
        order = "self_device_time_total" if timed else "self_cpu_time_total"
        table = averages.table(sort_by=order, row_limit=-1, max_name_column_width=NAME_WIDTH)
        files[".txt"] = _write_text(job["directory"], stem + ".txt", table)
        if job["averages_json"]:
            text = dumps([_row(row) for row in averages])
            files[".averages.json"] = _write_text(job["directory"], stem + ".averages.json", text)
    except OSError as error:
        raise Failure("disk", f"cannot write the capture: {error.strerror or error}") from error
    return Written(files, steps_in_file, len(averages) - len(steps))


def _steps_in(path: str) -> tuple[int, bool]:
    """How many `ProfilerStep`s a trace has, and whether there is work of a GPU."""
    found: set[bytes] = set()
    gpu = False
    with open(path, "rb") as file:
        rest = b""
        while chunk := file.read(1 << 20):
            rest += chunk
            for quoted, length, name in STEP.findall(rest):
                found.add(quoted or name[: length[0]])
            gpu = gpu or GPU.search(rest) is not None
            rest = rest[-40:]
    return len(found), gpu


def failed_reading(error: BaseException) -> bool:
    """Whether PyTorch could not read the names in its own recording: torch 2.13 with stacks, now and then."""
    frames = traceback.extract_tb(error.__traceback__)
    name = frames[-1].filename.replace("\\", "/") if frames else ""
    ours = name.endswith(("torch/autograd/profiler.py", "torch/autograd/profiler_util.py"))
    return isinstance(error, UnicodeDecodeError) and ours


def _unpack(path: str) -> None:
    """Cuspy packs what it writes, at the lowest level, and adds `.gz` to the name."""
    try:
        with gzip.open(path + ".gz") as packed, open(path, "wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    except FileNotFoundError:
        text = "Cuspy wrote no trace: it could not record the GPU (without --profiler cuspy, Kineto does)"
        raise Failure("torch", text) from None
    os.remove(path + ".gz")


def _mend_end(path: str) -> None:
    # Kineto does not report failed writes, so check the end of the file. It also writes the given path there,
    # with no regard to JSON: only the name is to stay.
    directory, name = os.path.split(path)
    try:
        with open(path, "r+b") as file:
            begin = max(0, os.path.getsize(path) - 4096 - 2 * len(os.fsencode(path)))
            file.seek(begin)
            tail = file.read()
            if tail.rstrip().endswith(b"}") and b'"traceName"' in tail:
                kineto = b'"traceName": "' + re.escape(os.fsencode(path)) + b'"'
                named = b'"traceName": ' + dumps(name).encode("ascii")
                tail = re.sub(kineto + rb'|"traceName":"(?:[^"\\]|\\.)*"', lambda _: named, tail)
                file.seek(begin)
                file.write(tail)
                file.truncate()
                return
    except FileNotFoundError:
        pass
    raise Failure("disk", f"the trace could not be written in full: is the disk with {directory} full?")


def _compress(path: str) -> str:
    target = path + ".gz"
    name = os.path.basename(path)
    with (
        open(path, "rb") as source,
        open(target, "wb") as raw,
        gzip.GzipFile(name, "wb", 6, raw, 0) as packed,
    ):
        shutil.copyfileobj(source, packed, 1 << 20)
    os.remove(path)
    return target


def _write_text(directory: str, name: str, text: str) -> str:
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write(text if text.endswith("\n") else text + "\n")
    return path


def _row(row: Any) -> dict[str, Any]:
    """One row of the averages; times in microseconds, as torch has them."""
    return {
        "key": row.key,
        "count": row.count,
        "cpu_total": row.cpu_time_total,
        "self_cpu": row.self_cpu_time_total,
        "device_total": row.device_time_total,
        "self_device": row.self_device_time_total,
        "device": str(row.device_type),
        "user": getattr(row, "is_user_annotation", None),  # torch 2.4 lacks it
    }
