"""Compiles the libraries in C into the wheel where there is a C compiler.

Where there is none, the wheel is one for any platform, and Python does all the work.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = tuple(
    f"src/tracetui/{name}.c"
    for name in (
        "formats/chrome_json/scanner",
        "formats/pftrace/decoder",
        "trace/nesting",
        "analysis/calls/calls",
        "replay/replay",
    )
)
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
PATIENCE = 100
"""Seconds for one library, which takes a second."""
FLAGS = ["-O3", "-shared", "-fvisibility=hidden", "-ffp-contract=off"]


def compile_library(compiler: list[str], source: Path, folder: Path) -> Path:
    """The library made from `source`, in `folder`. Raises OSError, which says why there is none."""
    library = folder / f"{source.stem}.native{SUFFIX}"
    flags = [*FLAGS, *([] if sys.platform == "win32" else ["-fPIC"])]
    flags.append(f"-DSOURCE={zlib.crc32(source.read_bytes())}u")
    command = [*compiler, *flags, "-o", str(library), str(source), "-lm"]
    nothing = subprocess.DEVNULL
    try:
        made = subprocess.run(
            command, stdin=nothing, capture_output=True, text=True, errors="replace", timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"took more than {PATIENCE} s") from None
    if made.returncode == 0 and library.is_file() and library.stat().st_size:
        return library
    lines = [line for line in (made.stderr + made.stdout).splitlines() if line.strip()]
    said = next((line for line in lines if "error" in line.lower()), *lines[:1] or ["no reason given"])
    raise OSError(said.strip()[:300])


def compile_libraries(sources: list[Path], folder: Path) -> list[Path]:
    """The libraries made from `sources` by the first compiler that makes all of them. Raises OSError, which
    says why there are none."""
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or ""
    why = []
    for compiler in (named.split(), ["cc"], ["gcc"], ["clang"]):
        if not compiler or not shutil.which(compiler[0]):
            continue
        try:
            return [compile_library(compiler, source, folder) for source in sources]
        except OSError as error:
            why.append(f"{compiler[0]} failed: {error.strerror or error}")
    raise OSError(why[0] if why else "there is no C compiler")


def put_beside(library: Path, source: Path) -> None:
    """Copy a library to its place beside its source; another build may do the same. Raises OSError."""
    try:
        with tempfile.TemporaryDirectory(prefix=".tracetui-", dir=source.parent) as folder:
            part = shutil.copy(library, folder)
            os.replace(part, source.with_name(library.name))
    except OSError as error:
        raise OSError(f"cannot write to {source.parent}: {error.strerror}") from None


class Hook(BuildHookInterface[Any]):
    """Adds the libraries to the wheel, which is then one for this platform.

    They are compiled in a folder of their own: the source may be read-only, or others may build from it, too.
    Only an editable installation, which runs what is in the source, has them there.
    """

    scratch: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds a wheel; `version` is "standard" or "editable"."""
        if os.environ.get("TRACETUI_NATIVE") == "0":
            return
        root = Path(self.root)
        try:
            self.scratch = tempfile.TemporaryDirectory(prefix="tracetui-build-")
            made = compile_libraries([root / source for source in SOURCES], Path(self.scratch.name))
            if version == "editable":
                for library, source in zip(made, SOURCES, strict=True):
                    put_beside(library, root / source)
        except OSError as error:
            self.app.display_warning(f"without the C libraries, large traces are read more slowly: {error}")
            return
        if version != "editable":
            for library, source in zip(made, SOURCES, strict=True):
                place = Path(source).relative_to("src").with_name(library.name)
                build_data["force_include"][str(library)] = place.as_posix()
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling after that."""
        if self.scratch is not None:
            self.scratch.cleanup()
