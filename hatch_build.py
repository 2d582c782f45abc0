"""Compiles the scanner, `scanner.c`, into the wheel where there is a C compiler.

Where there is none, the wheel is one for any platform, and the Python reader does all the work.
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

FOLDER = Path("src/tracetui/formats/chrome_json")
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
FLAGS = ["-O3", "-shared", "-fvisibility=hidden", "-ffp-contract=off"]


def compile_scanner(root: Path) -> Path | None:
    """The library made from scanner.c, beside it; None without a compiler that makes one."""
    library = root / FOLDER / f"libscanner{SUFFIX}"
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or ""
    flags = [*FLAGS, *([] if sys.platform == "win32" else ["-fPIC"])]
    for compiler in (named.split(), ["cc"], ["gcc"], ["clang"]):
        if not compiler or not shutil.which(compiler[0]):
            continue
        made = library.with_suffix(".new")
        source = root / FOLDER / "scanner.c"
        checksum = f"-DSOURCE={zlib.crc32(source.read_bytes())}u"
        command = [*compiler, *flags, checksum, "-o", str(made), str(source), "-lm"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            made.replace(library)
            return library
    return None


class Hook(BuildHookInterface[Any]):
    """Adds the library to the wheel, which is then one for this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds a wheel."""
        if os.environ.get("TRACETUI_SCANNER") == "0":
            return
        library = compile_scanner(Path(self.root))
        if library is None:
            self.app.display_warning("no C compiler: large traces will be read more slowly")
            return
        build_data["artifacts"].append((FOLDER / library.name).as_posix())
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
