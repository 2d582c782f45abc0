"""tracetui: a terminal trace viewer for PyTorch, with live capture.

In Python, `import tracetui as tt`: `tt.load(path)` reads a trace, and the others of `__all__` ask it; see
docs/api.md. They are imported when they are first used; their types are in `__init__.pyi`.
"""

import sys as _sys

__version__ = "0.1.0"
__all__ = ["Part", "Slices", "Trace", "TraceError", "capture", "compare", "load", "views"]


class _Package(type(_sys)):
    """Some folders here are named like what the API offers: importing one must not hide that."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in __all__:
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("tracetui.api"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
