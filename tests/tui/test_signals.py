"""What ends the program from outside, and bytes that are no text, on a real pseudo-terminal."""

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.program import on_terminal, resize

SAMPLE = Path(__file__).resolve().parent.parent / "data" / "mlp_eager.json.gz"
LEFT = (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?25h")
"""No alternate screen, no mouse reports, a cursor."""


class Terminal:
    """The viewer on a terminal of its own."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid, self.descriptor, self.written = pid, descriptor, b""

    def read_until_quiet(self, seconds: float = 60) -> None:
        """Read until nothing comes for half a second after the first screen, or the program has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.descriptor], [], [], 0.5)[0]:
                try:
                    chunk = os.read(self.descriptor, 1 << 16)
                except OSError:
                    return
                self.written += chunk
            elif len(self.written) > 2000:
                return

    def wait(self) -> int:
        """Read to the end; the exit code, or minus the signal."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            self.read_until_quiet(1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("it did not end")


def resident(pid: int) -> int:
    """Bytes of memory."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        pytest.skip("needs /proc")


@contextmanager
def viewer(*arguments: str) -> Iterator[Terminal]:
    pid, descriptor = on_terminal(*arguments, columns=120, rows=36)
    terminal = Terminal(pid, descriptor)
    try:
        yield terminal
    finally:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(descriptor)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGQUIT"])
def test_a_signal_leaves_the_terminal_as_it_was(name):
    with viewer("open", str(SAMPLE)) as terminal:
        terminal.read_until_quiet()
        os.kill(terminal.pid, getattr(signal, name))
        assert terminal.wait() == 128 + getattr(signal, name)
        for sequence in LEFT:
            assert sequence in terminal.written


def test_a_program_that_was_stopped_draws_everything_anew():
    with viewer("open", str(SAMPLE)) as terminal:
        terminal.read_until_quiet()
        os.kill(terminal.pid, signal.SIGTSTP)
        pid, status = os.waitpid(terminal.pid, os.WUNTRACED)
        assert pid
        assert os.WIFSTOPPED(status)
        terminal.read_until_quiet(2)
        assert LEFT[0] in terminal.written
        terminal.written = b""
        resize(terminal.descriptor, 100, 30)
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.read_until_quiet()
        assert b"\x1b[?1049h" in terminal.written
        for text in (SAMPLE.name.encode(), b"stream 7", b"quit"):
            assert text in terminal.written
        os.write(terminal.descriptor, b"q")
        assert terminal.wait() == 0


EARLY = """
import os, signal, sys
from textual.drivers.linux_driver import LinuxDriver
from tracetui.cli import main

start = LinuxDriver.start_application_mode
def start_and_stop(driver):
    start(driver)
    os.kill(os.getpid(), signal.SIGTERM)

LinuxDriver.start_application_mode = start_and_stop
sys.argv = ["tracetui", sys.argv[1]]
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_signal_before_the_first_screen_leaves_the_terminal_as_it_was():
    import pty

    pid, descriptor = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", EARLY, str(SAMPLE)])
    terminal = Terminal(pid, descriptor)
    try:
        assert terminal.wait() == 128 + signal.SIGTERM
        terminal.read_until_quiet(1)
    finally:
        os.close(descriptor)
    for sequence in LEFT:
        assert sequence in terminal.written


@pytest.mark.parametrize("keys", [b"q5", b"q/gemm\r"])
def test_keys_after_the_last_one(keys):
    """Pasted, or typed in a hurry: what opens something meets screens that are going."""
    with viewer("open", str(SAMPLE)) as terminal:
        terminal.read_until_quiet()
        os.write(terminal.descriptor, keys)
        assert terminal.wait() == 0
        assert b"Error" not in terminal.written
        for sequence in LEFT:
            assert sequence in terminal.written


@pytest.mark.parametrize("sizes", [(0, 0), (65535, 65535), (0, 99999)])
def test_a_terminal_of_any_size_at_the_start_takes_little_memory(sizes):
    """What the terminal says, and the environment."""
    of_terminal, told = sizes
    size = {"columns": of_terminal, "rows": of_terminal}
    env = {"COLUMNS": str(told), "LINES": str(told)} if told != of_terminal else {"COLUMNS": "", "LINES": ""}
    pid, descriptor = on_terminal("open", str(SAMPLE), **size, **env)
    terminal = Terminal(pid, descriptor)
    try:
        terminal.read_until_quiet(20)
        assert SAMPLE.name.encode() in terminal.written
        assert resident(pid) < 300 << 20
        os.write(descriptor, b"\x03")
        assert terminal.wait() == 0
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(descriptor)


def test_a_terminal_of_any_size_takes_little_memory():
    with viewer("open", str(SAMPLE)) as terminal:
        terminal.read_until_quiet()
        resize(terminal.descriptor, 65535, 65535)
        terminal.read_until_quiet(5)
        os.write(terminal.descriptor, b"\x1b[?2048;2$y" + b"\x1b[48;99999999;99999999;9;9t" * 2)
        terminal.read_until_quiet(5)
        assert resident(terminal.pid) < 400 << 20
        resize(terminal.descriptor, 120, 36)
        os.write(terminal.descriptor, b"\x1b[48;36;120;720;1200t")
        terminal.read_until_quiet()
        os.write(terminal.descriptor, b"\x03")
        assert terminal.wait() == 0
        assert b"\x1b[?1016h" in terminal.written
        assert b"\x1b[?1016l" in terminal.written, "the mouse is in cells again"


def test_a_program_that_was_stopped_without_being_told_goes_on():
    """SIGSTOP, or SIGCONT alone."""
    with viewer("open", str(SAMPLE)) as terminal:
        terminal.read_until_quiet()
        for number in (signal.SIGCONT, signal.SIGSTOP, signal.SIGCONT):
            os.kill(terminal.pid, number)
            terminal.read_until_quiet(1)
        terminal.written = b""
        os.write(terminal.descriptor, b"?")
        terminal.read_until_quiet(2)
        assert b"Moving" in terminal.written, "each key is one key"
        os.write(terminal.descriptor, b"\x03")
        assert terminal.wait() == 0
        for sequence in LEFT:
            assert sequence in terminal.written


def test_a_terminal_that_takes_nothing_holds_up_no_signal():
    with viewer("open", str(SAMPLE)) as terminal:
        terminal.read_until_quiet()
        for _ in range(20):
            os.write(terminal.descriptor, b"wwwwssss" * 20 + b"?\x1b[B\x1b[B")
            time.sleep(0.1)
        os.kill(terminal.pid, signal.SIGTERM)
        end = time.monotonic() + 20
        while not (ended := os.waitpid(terminal.pid, os.WNOHANG))[0]:
            assert time.monotonic() < end, "it did not end"
            time.sleep(0.1)
        assert os.waitstatus_to_exitcode(ended[1]) == 128 + signal.SIGTERM


def test_bytes_that_are_no_text_and_no_key_are_ignored():
    with viewer("open", str(SAMPLE)) as terminal:
        terminal.read_until_quiet()
        for keys in (b"\xff\xfe", b"\x1b[M\xe0\xff\x80", b"\x1b[97;1:3u", b"/\xc3\x28gemm\xf0\x9f\r"):
            os.write(terminal.descriptor, keys)
            terminal.read_until_quiet()
        os.write(terminal.descriptor, b"\x1b")
        terminal.read_until_quiet()
        os.write(terminal.descriptor, b"\x03")
        assert terminal.wait() == 0
        assert b"Traceback" not in terminal.written


BROKEN = """
import sys
from tracetui.cli import main
from tracetui.tui.verdict_line import VerdictLine

VerdictLine.DEFAULT_CSS += "VerdictLine > .verdict--text { color: $nothing; }"
sys.argv = ["tracetui", sys.argv[1]]
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_an_error_in_the_styles_of_the_first_screen_ends_the_program_with_a_line():
    """Textual would wait for ever for the screen whose mount failed."""
    import pty

    pid, descriptor = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", BROKEN, str(SAMPLE)])
    terminal = Terminal(pid, descriptor)
    try:
        assert terminal.wait() == 1
        terminal.read_until_quiet(1)
    finally:
        os.close(descriptor)
    assert all(sequence in terminal.written for sequence in LEFT)
    # From Python 3.13 on Textual ends by itself, with a text of its own.
    assert b"$nothing" in terminal.written[terminal.written.rindex(LEFT[0]) :]
