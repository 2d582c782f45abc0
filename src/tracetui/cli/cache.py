"""`tracetui cache`: what is kept of large traces, so that they open at once next time."""

from __future__ import annotations

import os
import time

import click

from tracetui.cli.common import command_errors, emit

STATES = {
    "current": "",
    "changed": "  (the file or tracetui has changed: read again when opened)",
    "gone": "  (the file is gone)",
    "damaged": "unreadable, ignored",
}


@click.command("cache")
@click.option("--clear", is_flag=True, help="Delete the whole cache.")
@click.option("--json", "as_json", is_flag=True, help="Strict JSON, for scripts.")
@command_errors
def cache_command(clear: bool, as_json: bool) -> None:
    """Print what is cached of large traces, so that they open at once next time.

    For each trace with at least 20 MB of text, the cache holds its events (a seventh of the text's size) and
    what the first screen and the summary say. They are used as long as the file does not change. The cache
    takes at most 4 GB, or a tenth of the free disk space if that is less; what was used least recently goes
    first.

    TRACETUI_CACHE_GB sets another limit, TRACETUI_CACHE another folder; TRACETUI_NO_CACHE=1 means --no-cache
    for every command.
    """
    from tracetui.core.safe_text import plain
    from tracetui.core.units import plural, size
    from tracetui.session.recent import ago
    from tracetui.trace import saved
    from tracetui.views.jsonable import dumps

    freed = saved.clear() if clear else 0
    kept, folder, most = saved.kept_traces(), saved.cache_folder(), saved.limit()
    total = sum(file.bytes for file, _, _ in kept)
    if as_json:
        rows = [
            {
                "path": path or None,
                "bytes": file.bytes,
                "used_s": file.used,
                "state": state,
                "file": file.file.name,
            }
            for file, path, state in kept
        ]
        found = {"folder": str(folder), "total_bytes": total, "limit_bytes": most, "enabled": saved.is_on()}
        emit(dumps({**found, "freed_bytes": freed, "traces": rows}))
        return
    now = time.time()
    lines = [
        f"{size(file.bytes):>8}  {ago(now - file.used):>10}  {path}{STATES[state]}"
        for file, path, state in kept
    ]
    if lines:
        lines.append("")
    if clear:
        lines.append(f"{size(freed)} deleted")
    lines.append(
        f"{plural(len(kept), 'trace')}, {size(total)} of at most {size(most)}, in {plain(str(folder))}"
    )
    if not saved.is_on():
        lines.append("TRACETUI_NO_CACHE is set: the cache is not used")
    elif folder.exists() and not os.access(folder, os.W_OK):
        lines.append("this folder cannot be written to: nothing is cached")
    emit("\n".join(lines))
