"""A user's own code, run as Python itself would run it; PyTorch is seen when the program imports it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import runpy
import sys
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any

from .channel import Channel, Failure
from .frames import clean, hide_ours
from .recorder import Recorder
from .recording import Job


def load_callable(target: str) -> Callable[[], object]:
    """The callable that "module:function" names; a class's method by "module:Class.method".

    Raises `Failure("usage", ...)` where there is no such thing. An error inside the module comes through.
    """
    sys.path.insert(0, os.getcwd())
    module_name, _, path = target.partition(":")
    try:
        thing: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise  # the module is there, and something that it imports is not
        raise Failure("usage", f"no module {module_name!r} here or in this Python's environment") from error
    for part in path.split("."):
        if not hasattr(thing, part):
            raise Failure("usage", f"module {module_name!r} has no {path!r}")
        thing = getattr(thing, part)
    if not callable(thing):
        raise Failure("usage", f"{target} cannot be called: it is a {type(thing).__name__}")
    function: Callable[[], object] = thing
    return function


def run_program(job: Job, channel: Channel) -> None:
    """Run the script or the module, and leave as it leaves: what it raises comes through.

    Its recording is written when it is complete, or when the program ends.
    """
    if job["device"] == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the program picks its own device
    recorder = Recorder(job, channel)
    recorder.watch()
    target, arguments = job["target"], job["script_args"]
    channel.phase("running", os.path.basename(target))
    when_imported("torch", recorder.torch_imported)
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    try:
        if job["kind"] == "module":
            if not getattr(sys.flags, "safe_path", False):
                sys.path.insert(0, os.getcwd())
            sys.argv = ["-m", *arguments]
            sys.orig_argv[1:] = ["-m", target, *arguments]  # Python 3.10
            runpy._run_module_as_main(target)  # type: ignore[attr-defined]
        else:
            _run_script(target, arguments, main)
    except BaseException as error:
        clean(error)
        hide_ours()
        if isinstance(error, KeyboardInterrupt) and recorder.ender.begun:
            return  # we asked it to end
        recorder.tell.left(error)
        raise
    finally:
        recorder.ender.main_ended = True


def _run_script(path: str, arguments: list[str], main: types.ModuleType) -> None:
    sys.argv = [path, *arguments]
    sys.orig_argv[1:] = sys.argv
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    whole = os.path.abspath(path)
    loader = SourceFileLoader("__main__", whole)
    main.__dict__.update(__file__=whole, __cached__=None, __loader__=loader)
    with open(whole, "rb") as file:
        code = compile(file.read(), whole, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def when_imported(name: str, then: Callable[[], object]) -> None:
    """Call `then` once a module has been imported, before whoever imports it goes on."""
    if name in sys.modules:
        then()
        return

    class Loader(importlib.abc.Loader):
        def __init__(self, spec: ModuleSpec) -> None:
            self.spec, self.real = spec, spec.loader

        def __getattr__(self, attribute: str) -> Any:
            return getattr(self.real, attribute)

        def create_module(self, spec: ModuleSpec) -> Any:
            return self.real.create_module(spec)  # type: ignore[union-attr]

        def exec_module(self, module: types.ModuleType) -> None:
            self.spec.loader = module.__loader__ = self.real
            self.real.exec_module(module)  # type: ignore[union-attr]
            then()

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, wanted: str, path: Any, target: Any = None) -> ModuleSpec | None:
            if wanted != name:
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            if spec is None or spec.loader is None:
                sys.meta_path.insert(0, self)  # it may be there later
                return None
            spec.loader = Loader(spec)
            return spec

    sys.meta_path.insert(0, Finder())
