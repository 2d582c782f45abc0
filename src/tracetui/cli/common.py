"""What the commands share: loading with progress, exit codes, safe output.

Exit codes: 1 for a file that cannot be read as a trace, 2 for wrong usage (click's own), 130 for Ctrl+C.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TextIO, TypeVar

import click

if TYPE_CHECKING:
    from tracetui.session.folder import Found
    from tracetui.trace import Trace

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])

UNREADABLE = 1
INTERRUPTED = 130

MOST_NAMES = 2000
"""Names in a folder that are compared with a mistyped one."""

LONGEST_MESSAGE = 1000
"""Characters of a message at most: it may quote a very long argument."""


def fail(message: str, code: int = UNREADABLE) -> NoReturn:
    """Write one line to standard error, made safe to print, and exit."""
    from tracetui.core.safe_text import plain

    with contextlib.suppress(OSError, ValueError):
        write(sys.stderr, f"tracetui: {plain(message, LONGEST_MESSAGE)}\n")
    sys.exit(code)


def warn(text: str) -> None:
    """A line on standard error that the user should know of."""
    from tracetui.core.safe_text import plain

    write(sys.stderr, f"tracetui: note: {plain(text, LONGEST_MESSAGE)}\n")


def warn_of_plugins() -> None:
    """A line for each plugin that was left out by now. None is looked for."""
    plugins = sys.modules.get("tracetui.core.plugins")
    with contextlib.suppress(OSError, ValueError):
        for line in plugins.problems() if plugins else ():
            warn(line)


def did_you_mean(typed: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """`; did you mean X?` with the known word closest to `typed`, written by `shown`; "" if none is close."""
    from difflib import get_close_matches

    near = get_close_matches(typed[:100], list(known), 1)
    return f"; did you mean {shown(near[0])}?" if near else ""


def near_file(path: str) -> str:
    """`; did you mean X?` with the closest name in the folder of a missing file; "" if none is close."""
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError, ValueError), os.scandir(folder or ".") as entries:
        names = [entry.name for entry in islice(entries, MOST_NAMES)]
        begun = [other for other in names if other.startswith(name.split(".")[0])]
        shown = functools.partial(os.path.join, folder)
        return did_you_mean(name, begun, shown) or did_you_mean(name, names, shown)
    return ""


def check_exists(path: str, code: int = UNREADABLE) -> None:
    """Exit if there is no such file; the message has the closest name in its folder."""
    if path != "-" and not os.path.lexists(path):
        fail(f"{path}: no such file or directory{near_file(path)}", code)


@contextlib.contextmanager
def harmless_errors() -> Iterator[None]:
    """Remove escape sequences from click's error messages, which quote arguments as they are. Ctrl+C before
    a command says what that means for it: 130, where click has 1 and a word of its own."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        from tracetui.core.safe_text import plain

        vars(error).update(message=plain(error.message, LONGEST_MESSAGE))
        raise


def open_closed_streams() -> None:
    """Give each standard stream that was closed (`2>&-`) a descriptor, which files opened later would get.

    Nothing can be written to such a standard output: `emit` says so. Errors go nowhere.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                # The lowest free descriptor, which is this one; standard output cannot be written to.
                os.open(os.devnull, os.O_RDWR if descriptor == 2 else os.O_RDONLY)
                setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115


def write(stream: object, text: str) -> None:
    """Write to a text stream in any encoding: `µs` becomes `us` if the encoding has no µ."""
    from tracetui.core.ascii_fallback import encodable

    stream.write(encodable(text, getattr(stream, "encoding", None) or "utf-8"))  # type: ignore[attr-defined]
    stream.flush()  # type: ignore[attr-defined]


def emit(text: str) -> None:
    """Write to standard output, with a final newline. If the reader has left (`| head`), exit quietly."""
    try:
        write(sys.stdout, text if text.endswith("\n") or not text else text + "\n")
    except OSError as error:
        output_failed(error)


def is_standard_output(path: str) -> bool:
    """Whether a path leads to the file or pipe that is standard output."""
    with contextlib.suppress(OSError, ValueError):
        one, other = os.stat(path), os.fstat(1)
        return os.path.samestat(one, other) and not stat.S_ISCHR(one.st_mode)
    return False


def output_failed(error: OSError) -> NoReturn:
    """Exit because standard output cannot be written to: quietly if the reader has left."""
    _to_nowhere(sys.stdout)
    if error.errno in (errno.EPIPE, errno.EINVAL):
        sys.exit(0)
    fail(f"standard output: {'is closed' if error.errno == errno.EBADF else error.strerror}")


def _to_nowhere(stream: TextIO) -> None:
    """Python flushes what a stream still holds at exit: send that to /dev/null."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def leave(code: int) -> NoReturn:
    """Exit with this code, even if the terminal is gone and the streams cannot be flushed."""
    for stream in sys.stdout, sys.stderr:
        try:
            stream.flush()
        except (OSError, ValueError):
            _to_nowhere(stream)
    raise SystemExit(code)


@contextlib.contextmanager
def errors_as_exits() -> Iterator[None]:
    """Turn a TraceError into one line and exit code 1, Ctrl+C into 130; no traceback."""
    from tracetui.trace import Cancelled, TraceError

    try:
        yield
    except TraceError as error:
        fail(str(error))
    except (KeyboardInterrupt, Cancelled):
        sys.exit(INTERRUPTED)
    except MemoryError:
        fail("not enough memory for this trace")


def command_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that runs a command in `errors_as_exits`."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        with errors_as_exits():
            return function(*args, **kwargs)

    return guarded


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int, int], bool | None] | None]:
    """A bar on standard error if that is a terminal, after 0.25 s. Yields a `Progress` or None."""
    if not sys.stderr.isatty():
        yield None
        return
    begun = last = time.monotonic()
    shown = False

    def progress(done: int, total: int) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if now - begun < 0.25 or now - last < 0.05:
            return
        last, shown = now, True
        share = min(1.0, done / total) if total > 0 else 0.0
        filled = round(24 * share)
        size = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB" if total > 0 else f"{done / 1e6:,.0f} MB"
        write(sys.stderr, f"\rloading [{'#' * filled}{'.' * (24 - filled)}] {share:4.0%}  {size} ")

    try:
        yield progress
    finally:
        if shown:
            write(sys.stderr, "\r" + " " * 72 + "\r")


def load_or_exit(path: str) -> Trace:
    """Load a trace with a progress bar; of a folder the one that is in it. Exit codes: 1 if the file cannot
    be read, 130 for Ctrl+C."""
    check_exists(path)
    if os.path.isdir(path):
        path = _only_trace(path)
    from tracetui.core.threads import import_numpy

    import_numpy()
    from tracetui.trace import load
    from tracetui.trace.saved import keep

    with errors_as_exits(), progress_bar() as progress:
        found = load(path, progress)
    keep(found)
    return found


def traces_or_exit(folder: str, none: str) -> list[Found]:
    """The traces in a folder; exit if it cannot be read, or has none: `none` says so."""
    from tracetui.session.folder import traces_in

    try:
        traces = traces_in(folder)
    except OSError as error:
        fail(f"{folder}: {(error.strerror or 'cannot be read').lower()}")
    if not traces:
        fail(f"{folder}: {none}")
    return traces


def _only_trace(folder: str) -> str:
    """The trace in a folder that has one, such as a capture's; exit if there are none or several."""
    found = traces_or_exit(folder, "is a folder without torch.profiler traces")
    if len(found) > 1:
        fail(f"{folder}: is a folder with {len(found)} traces: name one of them, such as {found[0].path}")
    return str(found[0].path)


def _without_cache(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        os.environ["TRACETUI_NO_CACHE"] = "1"


cache_option = click.option(
    "--no-cache",
    is_flag=True,
    expose_value=False,
    callback=_without_cache,
    help="Read the file itself and cache nothing (see tracetui cache).",
)
"""The option of every command that reads a trace."""


def trace_argument(command: F) -> F:
    """The argument TRACE: a path, or "-" for standard input, which `load_or_exit` checks; `cache_option`."""
    argument = click.argument("trace", metavar="TRACE", type=click.Path(path_type=str, allow_dash=True))
    return argument(cache_option(command))


class _Themes(click.Choice):  # type: ignore[type-arg]  # generic since click 8.2
    """Names of themes, in British spelling, too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(str(value).replace("colour", "color"), param, ctx)


def looks(command: F) -> F:
    """The options of the viewer, `theme` and `ascii`. They may stand before the command, too."""

    def here_or_before(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        return value or (ctx.parent.params.get(param.name or "") if ctx.parent else None) or value

    themes = _Themes(["dark", "light", "high-contrast", "color-blind"])
    ascii_only = click.option(
        "--ascii", is_flag=True, callback=here_or_before, help="Draw with ASCII characters only."
    )
    colors = click.option("--theme", type=themes, callback=here_or_before, help="Colors of the viewer.")
    return colors(ascii_only(command))


class Stopped(BaseException):
    """A signal asked this program to end, and so what it runs."""

    def __init__(self, signal: int) -> None:
        self.signal = signal


@contextlib.contextmanager
def stop_signals(then: Callable[[int], object] | None = None) -> Iterator[None]:
    """Turn SIGINT (Ctrl+C), SIGTERM, SIGHUP (a closed terminal), SIGQUIT into `Stopped`, or tell `then`."""

    def stop(number: int, frame: FrameType | None) -> None:
        if then is not None:
            then(number)
            return
        for name in names:  # one is enough: we are stopping
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        raise Stopped(number)

    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
    # What is ignored (nohup, a job in the background) stays so, here and in what we start.
    names = [name for name in names if signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN]
    before = {name: signal.signal(getattr(signal, name), stop) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
