"""Compiles the libraries in C into the wheel where there is a C compiler.

Where there is none, the wheel is one for any platform, and Python does all the work.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = tuple(
    f"src/tracetui/{name}.c" for name in ("formats/chrome_json/scanner", "trace/nesting", "analysis/calls")
)
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
FLAGS = ["-O3", "-shared", "-fvisibility=hidden", "-ffp-contract=off"]


def compile_library(source: Path) -> Path | None:
    """The library made from `source`, beside it; None without a compiler that makes one."""
    library = source.with_name(f"{source.stem}.native{SUFFIX}")
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or ""
    flags = [*FLAGS, *([] if sys.platform == "win32" else ["-fPIC"])]
    flags.append(f"-DSOURCE={zlib.crc32(source.read_bytes())}u")
    for compiler in (named.split(), ["cc"], ["gcc"], ["clang"]):
        if not compiler or not shutil.which(compiler[0]):
            continue
        made = library.with_suffix(".new")
        command = [*compiler, *flags, "-o", str(made), str(source), "-lm"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            made.replace(library)
            return library
    return None


class Hook(BuildHookInterface[Any]):
    """Adds the libraries to the wheel, which is then one for this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds a wheel."""
        if os.environ.get("TRACETUI_NATIVE") == "0":
            return
        root = Path(self.root)
        libraries = [compile_library(root / source) for source in SOURCES]
        made = [library for library in libraries if library is not None]
        if len(made) < len(SOURCES):
            self.app.display_warning("no C compiler: large traces will be read more slowly")
            return
        build_data["artifacts"] += [library.relative_to(root).as_posix() for library in made]
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
