"""Where tests find traces: the bundled samples, and a collection beside the checkout where there is one."""

import gc
import importlib.util
import itertools
import os
import signal
import sys
import threading
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

from tracetui import trace
from tracetui.analysis import part
from tracetui.compare import compare
from tracetui.compare.model import Comparison
from tracetui.compare.sides import Side
from tracetui.trace import Trace, load, saved

# Else every process that a test starts compiles all that it imports, and every worker all tests, each time.
if os.environ.get("PYTHONDONTWRITEBYTECODE") != "never":
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The same examples each time, however long one takes: HYPOTHESIS_PROFILE=default looks for others.
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A shell starts what runs in its background without Ctrl+C, and all that this starts would do without it.
if (
    signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test uses what is kept of traces, unless it asks for it (the fixture `cache`), and none uses the user's.
os.environ["TRACETUI_NO_CACHE"] = "1"
os.environ["TRACETUI_CACHE"] = os.devnull
# Nor do plugins that are installed here change what tracetui says.
os.environ["TRACETUI_NO_PLUGINS"] = "1"

# The tests' own reading of large files makes millions of objects, among which there is no garbage.
gc.set_threshold(100_000, 20, 50)

_numbers, _mktemp = itertools.count(), pytest.TempPathFactory.mktemp


def _mktemp_next(self: pytest.TempPathFactory, basename: str, numbered: bool = True) -> Path:
    """pytest looks through all folders of the run for a free number: of thousands, for milliseconds."""
    return _mktemp(self, f"{basename}{next(_numbers)}" if numbered else basename, numbered=False)


pytest.TempPathFactory.mktemp = _mktemp_next  # type: ignore[method-assign]
ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_traces"
COLLECTION = ROOT.parent / "shared" / "traces"


def module_at(path: Path) -> ModuleType:
    """The module of a script, run anew."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def needed(path: Path) -> Path:
    """The path; skips where it is absent. All that the collection lacks is one line of the summary."""
    if not path.exists():
        pytest.skip(f"{path if COLLECTION.is_dir() else 'the larger collection of traces'} is not here")
    return path


def pytest_xdist_auto_num_workers() -> int | None:
    """Some tests wait for other processes: one worker more than there are cores uses that time."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    """For the whole suite each worker compiles its share of the tests first, and then finds the others'."""
    worker = getattr(session.config, "workerinput", None)
    if worker is not None:
        _tell_less(session.config)
    if worker is None or [Path(arg).resolve() for arg in session.config.args] != [ROOT / "tests"]:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted((ROOT / "tests").glob("*/test_*.py"))[number::count]:
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def _tell_less(config: pytest.Config) -> None:
    """Of a test that passed, a worker sends one message, not five, unless somebody wants to know all: of the
    suite's processor time that is a fiftieth."""
    option = config.option
    interactor = next((p for p in config.pluginmanager.get_plugins() if hasattr(p, "sendevent")), None)
    if interactor is None or option.durations or option.xmlpath or option.verbose > 0:
        return
    send = interactor.sendevent

    def send_less(name: str, **more: Any) -> None:
        report = more.get("data", {}) if name == "testreport" else {}
        passed = report.get("outcome") == "passed"
        if name in ("logstart", "logfinish") or (passed and report["when"] != "call"):
            return
        if passed:
            report["keywords"] = {}
        send(name, **more)

    interactor.sendevent = send_less


def pytest_collection_finish() -> None:
    """What is there now stays: the collector need not look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which traces of any size are kept."""
    monkeypatch.delenv("TRACETUI_NO_CACHE")
    monkeypatch.setenv("TRACETUI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(saved, "WORTH", 0)
    return tmp_path / "cache"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the app remembers goes to this folder of the test's own."""
    monkeypatch.setenv("TRACETUI_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def samples() -> Path:
    return SAMPLES


@pytest.fixture
def wild() -> Path:
    """The folder of traces from many tools; skips where it is absent."""
    return needed(COLLECTION / "wild")


@lru_cache(maxsize=12)
def _loaded(path: str, written_ns: int, size: int) -> Trace:
    return load(path)


@pytest.fixture
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and the app take a file that has been read before as it was: for tests of what they show."""

    def load_once(path: str | Path, *args: Any, **options: Any) -> Trace:
        if args[1:] or options or not os.path.isfile(path):
            return load(path, *args, **options)
        status = os.stat(path)
        return _loaded(str(path), status.st_mtime_ns, status.st_size)

    monkeypatch.setattr(trace, "load", load_once)


_Part = lru_cache(maxsize=4)(part.Part)
_compare_each = compare.compare
_compare = lru_cache(maxsize=4)(_compare_each)


def _compare_once(a: Any, b: Any) -> Comparison:
    """Steps of one trace are compared each time."""
    return _compare_each(a, b) if isinstance(a, Side) else _compare(a, b)


@pytest.fixture
def analysed_once(monkeypatch: pytest.MonkeyPatch, read_once: None) -> None:
    """Commands share what is found out about a trace, or two: for tests of several things that they say."""
    monkeypatch.setattr(part, "Part", _Part)
    monkeypatch.setattr(compare, "compare", _compare_once)
