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
        channel.phase("exporting", f"{stem}.json")
        files = {".json": _write_trace(prof, job["directory"], stem)}
        size = os.path.getsize(files[".json"])
        steps_in_file = _steps_in(files[".json"])
        if job["gzip"]:
            channel.phase("exporting", f"{stem}.json.gz")
            files = {".json.gz": _compress(files[".json"])}
        if size > LARGE and not job["averages_json"]:
            text = "the recording is large: PyTorch's own table would take it minutes and is left out"
            channel.note("large", f"{text} (tracetui table has the same numbers)")
            return Written(files, steps_in_file, 1)
        channel.phase("exporting", f"{stem}.txt")
        averages = prof.key_averages()
        steps = [row for row in averages if row.key.startswith("ProfilerStep")]
        if (
            len(steps) < len(averages)
            and kind != "cpu"
            and not any(r.self_device_time_total for r in averages)
        ):
            channel.note("no_kernels", "no GPU work was recorded: the trace has no GPU lane")
        order = "self_cpu_time_total" if kind == "cpu" else "self_device_time_total"
        table = averages.table(sort_by=order, row_limit=-1, max_name_column_width=NAME_WIDTH)
        files[".txt"] = _write_text(job["directory"], stem + ".txt", table)
        if job["averages_json"]:
            text = dumps([_row(row) for row in averages])
            files[".averages.json"] = _write_text(job["directory"], stem + ".averages.json", text)
    except OSError as error:
        raise Failure("disk", f"cannot write the capture: {error.strerror or error}") from error
    return Written(files, steps_in_file, len(averages) - len(steps))


def _steps_in(path: str) -> int:
    """How many `ProfilerStep`s a trace has."""
    found: set[bytes] = set()
    with open(path, "rb") as file:
        rest = b""
        while chunk := file.read(1 << 20):
            rest += chunk
            found.update(re.findall(rb'"ProfilerStep#(\d+)"', rest))
            rest = rest[-40:]
    return len(found)


def failed_reading(error: BaseException) -> bool:
    """Whether PyTorch could not read the names in its own recording: torch 2.13 with stacks, now and then."""
    frames = traceback.extract_tb(error.__traceback__)
    name = frames[-1].filename.replace("\\", "/") if frames else ""
    ours = name.endswith(("torch/autograd/profiler.py", "torch/autograd/profiler_util.py"))
    return isinstance(error, UnicodeDecodeError) and ours


def _write_trace(prof: torch.profiler.profile, directory: str, stem: str) -> str:
    path = os.path.join(directory, stem + ".json")
    prof.export_chrome_trace(path)
    # Kineto does not report failed writes, so check the end of the file. It also writes the given path there,
    # with no regard to JSON: only the name is to stay.
    try:
        with open(path, "r+b") as file:
            begin = max(0, os.path.getsize(path) - 4096 - 2 * len(os.fsencode(path)))
            file.seek(begin)
            tail = file.read()
            if tail.rstrip().endswith(b"}") and b'"traceName"' in tail:
                given = os.fsencode(path).join([b'"traceName": "', b'"'])
                named = b'"traceName": ' + dumps(stem + ".json").encode("ascii")
                file.seek(begin)
                file.write(tail.replace(given, named))
                file.truncate()
                return path
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
