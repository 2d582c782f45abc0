"""Entry of the child process: makes the folder above importable under a name of its own, runs the session."""

import _signal  # type: ignore[import-not-found]  # `signal`, without what that imports first

_ours = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
if _ours:
    # Ctrl+C before the user's code begins ends us at once, without a traceback of ours.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import importlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import types  # noqa: E402


def main() -> None:
    # Python put this folder first on sys.path: a user's module must not find ours instead of its own.
    if sys.version_info < (3, 9):  # noqa: UP036  # tracetui itself may run on a newer one
        text = "%s is Python %s, and 3.9 or newer is needed" % (sys.executable, sys.version.split()[0])  # noqa: UP031
        line = json.dumps({"event": "failed", "kind": "no_python", "message": text}) + "\n"
        os.write(int(sys.argv[2]) if len(sys.argv) > 2 else 1, line.encode("ascii"))
        sys.exit(1)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    package = types.ModuleType("_tracetui_capture")
    package.__path__ = [os.path.dirname(here)]
    sys.modules["_tracetui_capture"] = package
    importlib.import_module("_tracetui_capture.child.session").main(sys.argv[1:], _ours)


if __name__ == "__main__":
    main()
