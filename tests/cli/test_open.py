"""`tracetui open` and `demo`: what is said before the app starts, and the app on a real pseudo-terminal."""

import os
import re
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.program import on_terminal, output, resize

from tracetui.cli import main
from tracetui.session.samples import samples

DATA = Path(__file__).resolve().parent.parent / "data"
LLAMA = DATA / "llama_train.json.gz"
pytestmark = pytest.mark.usefixtures("state")


def bad_files(folder: Path) -> dict[str, Path]:
    empty = folder / "empty.json"
    empty.touch()
    picture = folder / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    other = folder / "other.json"
    other.write_text('{"no": "trace"}')
    return {
        "missing": folder / "missing.json", "directory": folder, "empty": empty, "picture": picture,
        "other": other
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["missing", "directory", "empty", "picture", "other"])
def test_bad_files_are_one_line_and_exit_code_1(tmp_path, kind):
    result = CliRunner().invoke(main, ["open", str(bad_files(tmp_path)[kind])])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr


def test_escape_sequences_in_a_path_do_not_reach_the_terminal(tmp_path):
    result = CliRunner().invoke(main, ["open", str(tmp_path / "a\x1b[31mb.json")])
    assert result.exit_code == 1
    assert "\x1b" not in result.stderr


def test_wrong_usage_is_exit_code_2():
    assert CliRunner().invoke(main, ["open"]).exit_code == 2


@pytest.mark.parametrize("option", [["--ascii"], ["--theme", "light"]])
def test_how_it_looks_is_no_matter_of_commands_that_print(option):
    result = CliRunner().invoke(main, [*option, "table", str(LLAMA)])
    assert result.exit_code == 2
    assert f"{option[0]} is only for the viewer" in result.stderr


def test_without_a_command_it_can_be_told_how_to_look():
    terminal = Terminal("--ascii", "--theme", "light")
    terminal.read("q quit")
    assert terminal.screen().isascii()
    assert "a workload or your code" in terminal.screen()
    terminal.press("q")
    assert terminal.wait() == 0


def test_without_a_terminal_the_summary_is_printed():
    run = output("open", str(LLAMA))
    assert run.returncode == 0, run.stderr
    assert b"\x1b" not in run.stdout
    assert "overhead-bound" in run.stdout.decode().casefold()


@pytest.mark.parametrize(("arguments", "encoding"), [
    (["open", "--ascii"], "utf-8"), (["gaps"], "ascii"), (["findings"], "ascii"), (["gaps"], "utf-8")
])  # fmt: skip
def test_micro_is_written_where_it_can_be_shown(arguments, encoding):
    ran = output(*arguments, str(LLAMA), PYTHONIOENCODING=encoding)
    assert ran.returncode == 0, ran.stderr
    told = ran.stdout
    if encoding == "utf-8" and "--ascii" not in arguments:
        assert "409 µs" in told.decode()
        assert " us" not in told.decode()
    else:
        assert told.isascii()
        assert b" us" in told
        assert b"?" not in told


def test_demo_lists_its_samples():
    found = samples()
    if not found:
        pytest.skip("this checkout has no samples yet")
    result = CliRunner().invoke(main, ["demo", "--list"])
    assert "training: forward, backward, fused AdamW" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert result.exit_code == 0
    for name in found:
        assert name in result.stdout
    assert CliRunner().invoke(main, ["demo", "no such sample"]).exit_code == 1


class Terminal:
    """A program on a pseudo-terminal, and the screen that it has drawn."""

    def __init__(self, *arguments: str, stdin: Path | None = None, cold: bool = False) -> None:
        self.columns, self.rows = 100, 30
        self.pid, self.fd = on_terminal(
            *arguments, columns=100, rows=30, stdin=stdin, cold=cold, COLORTERM="truecolor"
        )
        self.written = b""
        self.shown = (0, "")
        """What the screen showed after how many bytes."""

    def read(self, until: str, gone: str = "\0", seconds: float = 60) -> str:
        """The screen, once it shows a text, and no longer the one that is to go."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.written += os.read(self.fd, 1 << 16)
                except OSError:
                    break
            elif until in (shown := self.screen()) and gone not in shown:
                return shown
        raise AssertionError(f"{until!r} never appeared on:\n{self.screen()}")

    def screen(self) -> str:
        """What a terminal would show: enough of one for cursor moves and text."""
        if len(self.written) != self.shown[0]:
            self.shown = len(self.written), self._screen()
        return self.shown[1]

    def _screen(self) -> str:
        cells = [[" "] * self.columns for _ in range(self.rows)]
        x = y = 0
        text = self.written.decode("utf-8", "replace")
        token = re.compile(
            r"\x1b\[([\d;]*)H|\x1b\[(\d*)C|\x1b\[[\d;?<=>$]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|(\r)|(\n)|(.)",
            re.S,
        )
        for found in token.finditer(text):
            if found[1] is not None:
                row, _, column = found[1].partition(";")
                y, x = int(row or 1) - 1, int(column or 1) - 1
            elif found[2] is not None:
                x += int(found[2] or 1)
            elif found[3]:
                x = 0
            elif found[4]:
                y += 1
            elif found[5]:
                if 0 <= y < self.rows and 0 <= x < self.columns:
                    cells[y][x] = found[5]
                x += 1
        return "\n".join("".join(row).rstrip() for row in cells)

    def press(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def wait(self, seconds: float = 60) -> int:
        """The exit code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                with suppress(OSError):
                    self.written += os.read(self.fd, 1 << 16)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, 9)
        raise AssertionError("it did not end")


def test_a_trace_on_a_real_terminal():
    terminal = Terminal("open", str(LLAMA), cold=True)
    shown = terminal.read("What to fix first")
    lines = shown.splitlines()
    assert "llama_train.json.gz" in lines[0]
    assert "OVERHEAD-BOUND" in lines[1]
    assert "GPU busy 34" in lines[1]
    assert "GPU 35% overall" in lines[2]
    assert any("ProfilerStep#2" in line for line in lines[4:9])
    assert any("stream 7" in line for line in lines)
    assert "wasd move" in lines[-1]
    assert "q quit" in lines[-1]
    terminal.press("g")
    assert "longest first" in terminal.read("gap 1 of")
    terminal.press("q")
    assert terminal.wait() == 0
    assert "Traceback" not in terminal.written.decode("utf-8", "replace")


def test_two_traces_on_a_real_terminal():
    samples_ = samples()
    terminal = Terminal(str(samples_["mlp_eager"]), str(samples_["mlp_compile"]))
    shown = terminal.read("became")
    assert "mlp_eager" in shown
    assert "mlp_compile" in shown
    assert "A step takes 253 µs instead of 241 µs" in shown
    terminal.press("q")
    assert terminal.wait() == 0
    assert "Traceback" not in terminal.written.decode("utf-8", "replace")


def test_one_of_two_from_standard_input():
    terminal = Terminal(str(samples()["mlp_eager"]), "-", stdin=samples()["mlp_compile"])
    terminal.read("became")
    terminal.press("q")
    assert terminal.wait() == 0


@pytest.mark.parametrize("broken", [0, 1])
def test_one_of_two_is_no_trace(broken, tmp_path):
    paths = [str(LLAMA), str(LLAMA)]
    paths[broken] = str(bad_files(tmp_path)["picture"])
    terminal = Terminal("open", *paths)
    terminal.read("Esc  quit")
    terminal.press("q")
    assert terminal.wait() == 1
    assert "Traceback" not in terminal.written.decode("utf-8", "replace")


def test_a_trace_from_standard_input_leaves_the_keyboard_to_the_app():
    terminal = Terminal("open", "-", stdin=LLAMA)
    terminal.read("ProfilerStep#2")
    terminal.press("q")
    assert terminal.wait() == 0


def test_it_ends_with_its_terminal_where_no_signal_says_so():
    """As under a program that starts it in a session without a controlling terminal."""
    pytest.importorskip("termios", reason="needs a pseudo-terminal")
    master, slave = os.openpty()
    resize(slave, 120, 36)
    command = [sys.executable, "-m", "tracetui", "open", str(LLAMA)]
    ran = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    written = b""
    while b"stream 7" not in written:
        assert select.select([master], [], [], 30)[0]
        written += os.read(master, 1 << 16)
    os.close(master)
    assert ran.wait(15) == 129


def test_a_file_that_is_no_trace_on_a_real_terminal(tmp_path):
    terminal = Terminal("open", str(bad_files(tmp_path)["picture"]))
    terminal.read("Esc  quit")
    terminal.press("q")
    assert terminal.wait() == 1
    assert "Traceback" not in terminal.written.decode("utf-8", "replace")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_without_colors_none_is_sent(monkeypatch, theme):
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal("open", "--theme", theme, str(LLAMA))
    terminal.read("What to fix first")
    # A table's cursor row, a search with matches, a selection, a note, the help, the palette, details.
    # A key that came at once after Esc would be read together with it.
    for keys, until, *gone in (
        ("\x1b", "What to fix first", "New here?"),
        ("3", "Self CPU"),
        ("\x1b[B", "▸aten::mul"),
        ("/", "cat:kernel"),
        ("silu", "144 matches"),
        ("\r", "match 1 of"),
        ("T", "Ctrl+S"),
        ("\x1b", "wasd move", "Ctrl+S"),
        ("?", "Moving"),
        ("q", "wasd move", "Moving"),
        ("\x10", "Command"),
        ("\x1b", "wasd move", "Command"),
        ("2", "self time"),
    ):
        terminal.press(keys)
        terminal.read(until, *gone)
    codes = set()
    for found in re.findall(rb"\x1b\[([\d;]*)m", terminal.written):
        codes |= set(found.split(b";"))
    # Bold, dim, underlined, reversed; "39" and "49" are the terminal's own text and background.
    assert codes <= {b"", *b"0 1 2 4 7 22 24 27 39 49".split()}
    assert b"\x1b[1;7m\xe2\x96\xb8" in terminal.written, "the row under the cursor is not reversed"
    terminal.press("q")
    assert terminal.wait() == 0
