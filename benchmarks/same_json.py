"""Whether two installations say the same about the same traces: every `--json`, value by value.

    python benchmarks/same_json.py OLD_PYTHON NEW_PYTHON [TRACE | DIR]... [--text]

OLD_PYTHON and NEW_PYTHON are the interpreters of two environments that have tracetui installed, such as
../old/.venv/bin/python and .venv/bin/python. Without a TRACE: the bundled samples. With --text the text and
Markdown outputs are compared too, line by line. Prints a line per difference: trace, command, JSON path, old,
new. Exit code 1 where there is any, 2 where an installation cannot be run.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
SORTS = ("self_cpu_time_total", "cuda_time_total", "cpu_time", "count", "name")
GROUPS = ("shape", "annotation", "module", "kernel", "op")
COMMANDS = [
    ["table"],
    *(["table", "--sort", sort] for sort in SORTS),
    *(["table", "--group", group] for group in GROUPS),
    ["table", "--python-functions", "--limit", "10"],
    ["gaps"],
    ["gaps", "--min", "5us"],
    ["steps"],
    ["summary"],
    ["findings"],
    ["efficiency", "--limit", "0"],
    ["whatif", "--graphs", "--cpu", "2x"],
    *(
        [name, "--scope", "step:1"]
        for name in ("table", "gaps", "steps", "summary", "findings", "efficiency")
    ),
]
"""Every command that has `--json`; `check` has none and is always compared as text."""
LONGEST = 160
"""Characters of a value in a line."""

# Runs in each installation: takes the arguments of a command as a line of JSON and answers with [exit code,
# text, errors]. A trace is loaded once, not once per command.
CHILD = """
import contextlib, io, json, sys
from tracetui.cli import common, main

load, kept = common.load_or_exit, {}

def load_once(path):
    if path not in kept:
        kept.clear()
        kept[path] = load(path)
    return kept[path]

common.load_or_exit = load_once
for line in sys.stdin:
    code, out, err = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(json.loads(line), prog_name="tracetui")
        except SystemExit as end:
            code = end.code
        except Exception as error:
            code = f"{type(error).__name__}: {error}"
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


class Installation:
    """A tracetui that is asked in a process of its own."""

    def __init__(self, python: str) -> None:
        self.python = python
        self.process = subprocess.Popen(
            [python, "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=SAMPLES,  # where no folder is named like a module
            env={**os.environ, "COLUMNS": "120", "PYTHONUTF8": "1"},
        )

    def ask(self, arguments: list[str]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `answer` tells that it has ended
            self.process.stdin.write(json.dumps(arguments) + "\n")
            self.process.stdin.flush()

    def answer(self) -> tuple[int | str | None, str, str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            print(f"{self.python} gave no answer: is tracetui installed there?", file=sys.stderr)
            sys.exit(2)
        code, out, err = json.loads(line)
        return code, out, err


def values(old: Any, new: Any, at: str = "$") -> Iterator[tuple[str, str, str]]:
    """Where two parsed JSON values differ: (path, old, new). The order of an object's fields says nothing."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if key in old and key in new:
                yield from values(old[key], new[key], f"{at}.{key}")
            else:
                yield (
                    f"{at}.{key}",
                    shown(old[key]) if key in old else "-",
                    shown(new[key]) if key in new else "-",
                )
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{at}.length", str(len(old)), str(len(new))
        for i, (a, b) in enumerate(zip(old, new, strict=False)):
            yield from values(a, b, f"{at}[{i}]")
    elif type(old) is not type(new) or old != new:  # 1, 1.0 and true are three values
        yield at, shown(old), shown(new)


def lines(old: str, new: str) -> Iterator[tuple[str, str, str]]:
    """Where two texts differ: (line numbers, old, new)."""
    a, b = old.splitlines(), new.splitlines()
    for tag, i, j, k, m in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            yield f"line {i + 1}", shown("\n".join(a[i:j])), shown("\n".join(b[k:m]))


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def differences(old: Installation, new: Installation, arguments: list[str]) -> Iterator[tuple[str, str, str]]:
    """Where the two installations disagree on a command."""
    old.ask(arguments)
    new.ask(arguments)
    was, now = old.answer(), new.answer()
    if was[0] != now[0]:
        yield "exit code", str(was[0]), str(now[0])
    if was[1] != now[1]:
        if "--json" in arguments and was[1] and now[1]:
            yield from values(json.loads(was[1]), json.loads(now[1]))
        else:
            yield from lines(was[1], now[1])
    if was[2] != now[2]:
        yield "standard error", shown(was[2]), shown(now[2])


def traces(paths: list[Path]) -> list[Path]:
    """The trace files among the paths and in the folders among them."""
    found: list[Path] = []
    for path in paths:
        inside = sorted((*path.rglob("*.json"), *path.rglob("*.json.gz"))) if path.is_dir() else [path]
        found += [p for p in inside if not p.name.endswith((".meta.json", ".averages.json"))]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("old", help="a Python that has the old tracetui")
    parser.add_argument("new", help="a Python that has the new one")
    parser.add_argument("traces", nargs="*", type=Path, default=[SAMPLES], help="files and folders")
    parser.add_argument("--text", action="store_true", help="compare text and Markdown too")
    given = parser.parse_args()
    # As absolute paths, but not resolved: the Python of a virtual environment is a link.
    old, new = (Installation(str(Path(python).absolute())) for python in (given.old, given.new))
    forms = [["--json"], [], ["--markdown"]] if given.text else [["--json"]]
    asked = found = 0
    for trace in traces(given.traces):
        for command in [[*c, *form] for c in COMMANDS for form in forms] + [["check"]]:
            asked += 1
            for at, was, now in differences(old, new, [command[0], str(trace.absolute()), *command[1:]]):
                found += 1
                print(f"{trace.name}: {' '.join(command)}: {at}: {was} → {now}", flush=True)
    print(f"{asked} outputs compared, {found} differences", file=sys.stderr)
    return 1 if found or not asked else 0


if __name__ == "__main__":
    sys.exit(main())
