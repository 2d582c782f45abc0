"""The program on a real pseudo-terminal, over a trace that holds every kind of hostile text at once."""

import os
import re
import select
import time
from pathlib import Path

import pytest
from tests.program import on_terminal

from .texts import KINDS, unsafe, write

PAYLOADS = (
    r"\x1b\]52;",  # the clipboard
    r"\x1b\]0;",  # the title
    r"\x1b\]8;",  # a link
    r"\x1b[P_^X]",  # device control and other strings
    r"\x1b\[31;5m",  # red, blinking
    r"[\x80-\x9f\u202a-\u202e\u2066-\u2069]",
)


def run(arguments: list[str], keys: list[str], seconds: float = 60) -> str:
    """All that the program wrote to its terminal until it ended, while the keys were pressed."""
    pid, fd = on_terminal(*arguments, columns=120, rows=36, COLORTERM="truecolor")
    written, end, quiet = b"", time.monotonic() + seconds, 0
    try:
        while time.monotonic() < end:
            if select.select([fd], [], [], 0.1)[0]:
                try:
                    chunk = os.read(fd, 1 << 16)
                except OSError:
                    break
                if not chunk:
                    break
                written += chunk
                quiet = 0
            elif keys and len(written) > 1000 and (quiet := quiet + 1) >= 2:
                os.write(fd, keys.pop(0).encode())
                quiet = 0
        else:
            os.kill(pid, 9)
            raise AssertionError("it did not end")
    finally:
        os.waitpid(pid, 0)
        os.close(fd)
    return written.decode("utf-8")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    everything = " ".join(text for kind, text in KINDS.items() if not kind.startswith("long"))
    return write(tmp_path, everything, "every\x1b]0;kind\x07")


def check(written: str) -> None:
    for payload in PAYLOADS:
        match = re.search(payload, written)
        assert match is None, (payload, match)
    # What the program itself sends begins with ESC; between its sequences there is plain text only.
    own = re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])", "", written)
    assert not unsafe(own, allowed="\n\r"), unsafe(own, allowed="\n\r")[:5]


def test_the_app(trace):
    keys = [
        "1", "v", "v", "2", "3", "4", "5", "e", "\x1b", "/", "bold", "\r", "n", "e", "\x1b", "?", "\x1b", "q"
    ]  # fmt: skip
    written = run(["open", str(trace)], keys)
    assert "␛]52;" in written
    check(written)


@pytest.mark.parametrize("command", ["table", "gaps", "steps", "summary", "findings"])
def test_commands(trace, command):
    written = run([command, str(trace)], [])
    assert "GPU" in written or "step" in written or "Self" in written or "Try" in written
    check(written)


def test_messages(trace):
    for arguments in (
        ["open", f"{trace}\x1b]52;c;x\x07"],
        ["table", str(trace), "--sort", "\x1b]52;c;x\x07\x9b"],
    ):
        written = run(arguments, [])
        assert written
        check(written)
