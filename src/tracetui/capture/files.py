"""A capture's files: written to a scratch directory in their folder, then renamed into place."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tracetui import __version__
from tracetui.capture.events import CaptureResult, Note
from tracetui.capture.options import CaptureOptions
from tracetui.core.writing import check_writable, link_new, move, written

TRACES = (".json", ".json.gz", ".pftrace.gz")
SUFFIXES = (*TRACES, ".txt", ".averages.json", ".meta.json")


@dataclass(frozen=True)
class Scratch:
    """A hidden directory in the target folder."""

    directory: Path
    folder: Path
    made: tuple[Path, ...]
    """Directories created for this capture, outermost first."""

    def make(self) -> None:
        """Create the output directory, its folder, and the scratch directory in that.

        Raises OSError: FileNotFoundError if the parent of the output directory does not exist (most likely a
        typo), others if it is not writable.
        """
        try:
            for path in (self.folder.parent, self.folder):
                path.mkdir(exist_ok=True)
            self.directory.mkdir(0o700)
        except OSError:
            _remove_empty(self.made)
            raise

    def remove(self) -> None:
        """Delete the scratch directory, and the directories created for it if they are empty."""
        shutil.rmtree(self.directory, ignore_errors=True)
        _remove_empty(self.made)


def _remove_empty(made: Sequence[Path]) -> None:
    for path in reversed(made):
        with suppress(OSError):
            path.rmdir()


def scratch_of(options: CaptureOptions) -> Scratch:
    """The directories that a capture needs; none is made yet."""
    output = Path(os.path.expanduser(options.output))  # an unknown "~user" stays as it is, and does not exist
    folder = output / options.folder
    made = [path for path in (output, folder) if not path.exists()]
    return Scratch((folder / f".capture-{os.urandom(8).hex()}").absolute(), folder, tuple(made))


def publish(
    options: CaptureOptions,
    scratch: Scratch,
    files: Mapping[str, str],
    info: Mapping[str, Any],
    notes: tuple[Note, ...],
) -> CaptureResult:
    """Write the .meta.json, and move all files (suffix to path) to their names; raises OSError.

    If there is a capture of the same name, this one is called NAME-2, NAME-3, ...; `options.force` replaces
    the earlier one.
    """
    made = options.on(info["device"]["type"])
    meta = {
        "tracetui": __version__,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": options.command(),
        "cwd": os.getcwd(),
        "options": asdict(made) | {"params": made.values()},
        "notes": [note.text for note in notes],
        **info,
    }
    path = scratch.directory / "meta"
    path.write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
    # The trace comes last: where there is one, all that belongs to it is there, whatever happens in between.
    sources = {".meta.json": path} | {suffix: Path(files[suffix]) for suffix in reversed([*files])}
    number = 1
    while not _move_all(sources, scratch.folder, _numbered(made.stem, number), options.force):
        number += 1
    stem = _numbered(made.stem, number)
    targets = {suffix: scratch.folder / (stem + suffix) for suffix in sources}
    return CaptureResult(
        trace=next(targets[suffix] for suffix in TRACES if suffix in targets),
        table=targets.get(".txt"),
        meta=targets[".meta.json"],
        averages=targets.get(".averages.json"),
        info=meta,
        notes=notes,
    )


def amend(result: CaptureResult, info: Mapping[str, Any], notes: tuple[Note, ...]) -> CaptureResult:
    """The same result with what was learned after its files were written, in its .meta.json, too.

    Raises OSError.
    """
    meta = {**result.info, **info, "notes": [note.text for note in notes]}
    if result.meta is not None:
        with written(result.meta) as file:
            file.write(json.dumps(meta, indent=2).encode() + b"\n")
    return replace(result, info=meta, notes=notes)


def _numbered(stem: str, number: int) -> str:
    return stem if number == 1 else f"{stem}-{number}"


def _move_all(sources: Mapping[str, Path], folder: Path, stem: str, force: bool) -> bool:
    """Rename all files to `stem`. False, with nothing changed, if a file of that name exists."""
    if force:
        for suffix in sources:
            check_writable(folder / (stem + suffix))
        for suffix in SUFFIXES:
            target = folder / (stem + suffix)
            if suffix in sources:
                move(sources[suffix], target)
            else:
                target.unlink(missing_ok=True)  # from the replaced capture
        return True
    if any((folder / (stem + suffix)).exists() for suffix in SUFFIXES):
        return False
    done: list[Path] = []
    try:
        for suffix, source in sources.items():
            target = folder / (stem + suffix)
            link_new(source, target)
            done.append(target)
    except OSError as error:
        for target in done:
            target.unlink()
        if isinstance(error, FileExistsError):
            return False  # another capture took the name meanwhile; the sources are still there
        raise
    return True


def move_free(source: Path, folder: Path, stem: str, suffix: str) -> Path:
    """Move a file to the name STEM, or STEM-2, STEM-3, ... if there is such a file. Raises OSError."""
    number = 1
    while True:
        target = folder / (_numbered(stem, number) + suffix)
        try:
            link_new(source, target)
        except FileExistsError:
            number += 1
        else:
            source.unlink()
            return target
