"""The summaries of many files, by one process per core. At most one trace per process is in memory."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from tracetui.core.errors import Progress
from tracetui.core.threads import usable_cores
from tracetui.ranks.summary import RankSummary
from tracetui.ranks.worker import LENGTH, attempt

FEW_BYTES = 4_000_000
"""Files of fewer bytes than this, all together, are read sooner than another process has started."""
_CODE = "import sys; sys.path[:] = {path!r}; from tracetui.ranks.worker import main; main()"
Found = RankSummary | str


def summaries(
    paths: Sequence[str], progress: Progress | None = None, processes: int | None = None
) -> dict[str, Found]:
    """By path: the summary, or a line that says why there is none.

    `progress` is called with (bytes of the files done, bytes of the files). `processes`: how many, with this
    one; by default one per core, or this one alone for little."""
    sizes = {path: _size(path) for path in paths}
    total = sum(sizes.values())
    if processes is None:
        processes = usable_cores() if total >= FEW_BYTES else 1
    waiting = sorted(sizes, key=sizes.__getitem__)  # the largest first, so that none is left for the end
    founds: dict[str, Found] = {}
    lock = threading.Lock()
    children: list[subprocess.Popen[bytes]] = []

    def take() -> str | None:
        with lock:
            return waiting.pop() if waiting else None

    def work(summary_of: Callable[[str], Found]) -> None:
        while (path := take()) is not None:
            try:
                made = summary_of(path)
            except (OSError, EOFError, pickle.UnpicklingError):
                with lock:  # the process is gone: not the file's fault, as far as one can tell
                    waiting.append(path)
                return
            with lock:
                founds[path] = made

    threads = []
    try:
        for _ in range(min(processes, len(sizes)) - 1):
            children.append(_child())
            threads.append(threading.Thread(target=work, args=(_asker(children[-1]),), daemon=True))
            threads[-1].start()
        while (path := take()) is not None:
            made = attempt(path)
            with lock:
                founds[path] = made
                done = sum(sizes[one] for one in founds)
            if progress is not None:
                progress(done, total)
        for thread in threads:
            thread.join()
    finally:
        for child in children:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
    for path in waiting:  # a process ended on it: another one may have room for it
        founds[path] = attempt(path)
    return {path: founds[path] for path in paths}


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _child() -> subprocess.Popen[bytes]:
    # Not a fork, which can hang where threads run; and the main module is not imported again.
    code = _CODE.format(path=[os.path.abspath(one) if one else os.getcwd() for one in sys.path])
    # In a session of its own, so that Ctrl+C is this process's to handle.
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def _asker(child: subprocess.Popen[bytes]) -> Callable[[str], Found]:
    assert child.stdin is not None
    assert child.stdout is not None
    requests, answers = child.stdin, child.stdout

    def ask(path: str) -> Found:
        text = os.fsencode(path)
        requests.write(LENGTH.pack(len(text)) + text)
        requests.flush()
        head = answers.read(LENGTH.size)
        if len(head) < LENGTH.size:
            raise EOFError
        made: Found = pickle.loads(answers.read(LENGTH.unpack(head)[0]))  # from our own process
        return made

    return ask
