"""A trace of a vLLM or SGLang server, by the endpoints that these have for it.

The server records itself and writes the files to its own disk. Where it runs on this machine they are taken
from there: SGLang writes where it is told to, and vLLM into a folder that it was started with, which its
command line or its environment names. What a server answers, and what lies in a folder, is untrusted.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TypeVar

from tracetui.capture.live.files import FRONT_END, FileIdentity, TraceFolder, by_rank, is_whole, keep, reason
from tracetui.capture.live.meeting_folders import sweep
from tracetui.capture.live.model import AttachError, LiveEvent, Recorded, RecordRequest, Stage, Status
from tracetui.capture.live.products import ANSWER_SECONDS, Gone, Plan, Reply, Server, local_process, plan_for
from tracetui.core import units
from tracetui.core.safe_text import plain

TICK = 0.5
"""Most seconds between two pieces of news: how long closing the recording can take."""
POLL = 0.2
START_SECONDS = 300.0
STOP_SECONDS = 3600.0
"""How long writing the traces may take: minutes, if much was recorded."""
CLOSE_SECONDS = 5.0
"""How long to wait for the answer to the last /stop_profile of a recording that was broken off."""
STEPS_SECONDS = 600.0
"""How long a server may take for the steps: it does none while nobody sends it requests."""
FILES_SECONDS = 10.0
"""From the end of the recording to the first file, on a slow network disk."""
PATIENCE_SECONDS = 60.0
"""How long a file may stay half-written, or other ranks' files missing, without any change."""

_T = TypeVar("_T")


def record_server(url: str, wanted: RecordRequest, output: Path) -> Iterator[LiveEvent]:
    """Have the server at `url` record itself, and copy its traces into the folder `output`.

    The same news is repeated several times a second while something takes long, so that whoever iterates can
    close this: then the server is told to stop, and nothing is left in `output`. Raises AttachError: `url` is
    none or is no such server's, it was not started for profiling, it failed, or its files cannot be had from
    here (they exist then, and the message says where).
    """
    server = Server(url)
    asking = Status(Stage.ASKING, server.name)
    yield asking
    product, info = yield from _meanwhile(asking, server.identify, 3 * ANSWER_SECONDS)
    try:
        output.mkdir(parents=True, exist_ok=True)
        sweep(output, ".attach-*")
        scratch = Path(tempfile.mkdtemp(prefix=".attach-", dir=output.resolve()))
    except OSError as error:
        raise AttachError(f"cannot write to {plain(str(output), 300)}: {reason(error)}") from None
    recording = None
    try:
        recording = _Recording(server, plan_for(product, info, wanted, local_process(server), scratch))
        yield from recording.run(wanted)
        files, notes = yield from recording.collect()
        yield Recorded(tuple(keep(file, scratch, output) for file in files), notes)
    finally:
        if recording is None or recording.end():
            shutil.rmtree(scratch, ignore_errors=True)


class _Recording:
    """From /start_profile to the whole files. `end` must be called."""

    def __init__(self, server: Server, plan: Plan) -> None:
        self.server = server
        self.plan = plan
        self._name = f"{server.name} ({plan.product})"
        self._before = plan.place.files() if plan.place is not None else {}
        self._running = False
        """Whether the server may be recording or writing."""

    def run(self, wanted: RecordRequest) -> Generator[Status, None, None]:
        """Begin, wait, and stop; with `steps` the server stops by itself. Raises AttachError."""
        plan = self.plan
        asking = Status(Stage.ASKING, self._name)
        yield from _wait(wanted.start_in, asking)
        yield asking
        self._running = True  # from now on, whatever comes back
        try:
            reply = yield from self._post("/start_profile", asking, START_SECONDS)
        except Gone:
            self._running = False
            raise
        if not reply.good:
            self._running = False  # another user's recording must not be stopped either
            raise AttachError(self._refused(reply))
        if plan.steps is None:
            yield from _wait(wanted.duration, Status(Stage.RECORDING, units.duration(wanted.duration * 1e9)))
        elif plan.place is None:
            self._running = False  # it stops by itself
            raise AttachError(f"the recording was requested, but {self._elsewhere()}")
        elif (yield from self._steps(plan.steps, plan.place)):
            return
        writing = Status(Stage.WRITING, "this can take minutes")
        yield writing
        reply = yield from self._post("/stop_profile", writing, STOP_SECONDS)
        self._running = False
        if not reply.good:
            raise AttachError(f"{self._name} could not finish the recording ({reply.text}): its log says why")

    def _steps(self, steps: int, place: TraceFolder) -> Generator[Status, None, bool]:
        """Wait until the server writes; False if its steps do not come to an end. Raises AttachError."""
        news = Status(Stage.RECORDING, f"{steps} steps, as requests come in" if steps > 1 else "one step")
        end = time.monotonic() + STEPS_SECONDS
        while time.monotonic() < end:
            for _ in range(25):
                yield from _wait(POLL, news)
                if place.files().keys() - self._before.keys():
                    return True
            yield from _meanwhile(news, self._is_there, ANSWER_SECONDS)
        return False

    def _is_there(self) -> Reply:
        return self.server.ask("GET", "/get_model_info")

    def collect(self) -> Generator[Status, None, tuple[list[Path], tuple[str, ...]]]:
        """Wait until the traces are whole: they, rank 0 first, and notes. Raises AttachError."""
        place, plan = self.plan.place, self.plan
        if place is None:
            raise AttachError(f"the recording was made, but {self._elsewhere()}")
        news = Status(Stage.WRITING, plain(str(place.folder), 300))
        # Where it was told to stop, all is written when it answers.
        expected = plan.files if plan.steps is not None and self._running else 1
        seen: dict[str, FileIdentity] = {}
        whole: dict[str, FileIdentity] = {}
        changed = time.monotonic()
        while time.monotonic() - changed < (PATIENCE_SECONDS if seen else FILES_SECONDS):
            yield news
            found = {name: facts for name, facts in place.files().items() if self._before.get(name) != facts}
            if found != seen:
                changed = time.monotonic()
            stable = {name for name, facts in found.items() if seen.get(name) == facts and name not in whole}
            whole = {name: facts for name, facts in whole.items() if found.get(name) == facts}
            whole |= {name: found[name] for name in stable if is_whole(place.folder / name)}
            seen = found
            if found and whole == found and len(found) >= expected:
                self._running = False
                break
            time.sleep(POLL)
        if not whole:
            what = "its file was never finished" if seen else "no trace came"
            if any(not os.access(place.folder / name, os.R_OK) for name in seen):
                what = "its file, which cannot be read from here, lies"
            raise AttachError(f"{self._name} recorded, but {what} in {plan.where}: its log says why")
        files = [place.folder / name for name in sorted(whole, key=by_rank)]
        notes = [f"{plain(name, 200)} was never finished" for name in sorted(seen.keys() - whole.keys())]
        if len(seen) < expected:
            notes.append(f"{expected} processes were to be recorded, and {len(seen)} wrote a trace")
        if len(files) > 1 and FRONT_END.search(files[-1].name):
            notes.append(f"{plain(files[-1].name, 200)} is from vLLM's front end, which uses no GPU")
        return files, (*plan.notes, *notes)

    def end(self) -> bool:
        """Have the server stop if it may still record.

        Whether our folder can go: not while the server could write there, as a write that fails may end it.
        """
        if not self._running:
            return True
        answer = _aside(lambda: self.server.ask("POST", "/stop_profile", seconds=STOP_SECONDS))
        has_ended = False
        if wait([answer], CLOSE_SECONDS).done:
            error = answer.exception()
            has_ended = error is None or isinstance(error, Gone)
        return has_ended or self.plan.place is None or not self.plan.place.ours

    def _post(self, path: str, news: Status, seconds: float) -> Generator[Status, None, Reply]:
        body = self.plan.body if path == "/start_profile" else None
        return _meanwhile(news, lambda: self.server.ask("POST", path, body, seconds), seconds)

    def _refused(self, reply: Reply) -> str:
        if reply.status in (404, 405, 501):
            return f"{self._name} was not started for profiling: {self.plan.refusal}"
        return f"{self._name} refuses to record ({reply.text}); perhaps it is already recording"

    def _elsewhere(self) -> str:
        return (
            f"{self.plan.product} writes the traces to its own disk ({plain(self.server.host, 100)}), in "
            f"{self.plan.where}, which cannot be read from here: copy them, and open them with tracetui"
        )


def _wait(seconds: float, news: Status) -> Generator[Status, None, None]:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        yield news
        time.sleep(min(left, TICK))


def _meanwhile(news: Status, call: Callable[[], _T], seconds: float) -> Generator[Status, None, _T]:
    """The result of `call`, which runs in a thread; if this is closed, the thread is left alone."""
    answer = _aside(call)
    end = time.monotonic() + seconds + TICK
    while time.monotonic() < end:
        if wait([answer], TICK).done:
            return answer.result()
        yield news
    raise AttachError(f"the server does not answer within {seconds:g} s")


def _aside(call: Callable[[], _T]) -> Future[_T]:
    """What `call` will return or raise, in a thread that nobody waits for at the end."""
    answer: Future[_T] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, name="ask server", daemon=True).start()
    return answer
