"""The words after `tracetui` that are no command: files, folders, and what was mistyped."""

import gzip
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.test_open import Terminal

from tracetui.cli import main
from tracetui.cli import open as opening
from tracetui.session.folder import traces_in
from tracetui.session.samples import samples

DATA = Path(__file__).resolve().parent.parent / "data"
LLAMA = DATA / "llama_train.json.gz"


def run(*words: str, **more: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], **more)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path, state: Path) -> Path:
    """Traces, newest first: new.json, deep/er/old.json.gz; and JSON that is none."""
    there = tmp_path / "traces"
    (there / "deep" / "er" / "too").mkdir(parents=True)
    (there / ".hidden").mkdir()
    trace = json.dumps({"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]})
    (there / "new.json").write_text(trace)
    old = there / "deep" / "er" / "old.json.gz"
    old.write_bytes(gzip.compress(trace.encode()))
    os.utime(old, (time.time() - 7300,) * 2)
    for path in (
        "deep/er/too/deep.json",
        ".hidden/a.json",
        "new.meta.json",
        "new.averages.json",
        "trace.txt",
    ):
        (there / path).write_text(trace)
    (there / "package.json").write_text('{"name": "x"}')
    (there / "empty.json").touch()
    (there / "broken.json.gz").write_bytes(b"\x1f\x8bnothing")
    os.mkfifo(there / "pipe.json")
    return there


def test_a_trace_in_the_place_of_a_command_is_opened():
    for words in ((str(LLAMA),), ("open", str(LLAMA)), ("--ascii", str(LLAMA)), (str(LLAMA), "--ascii")):
        assert run(*words).stdout.startswith("llama_train.json.gz"), words
    assert run("-", input=LLAMA.read_bytes()).stdout.startswith("standard input")


@pytest.mark.parametrize("words", [["--theme", "light", "demo"], ["demo", "--theme", "light"]])
def test_options_of_the_viewer_stand_before_or_after(words, monkeypatch):
    opened = []
    monkeypatch.setattr(opening, "open_trace", lambda *given, quiz: opened.append(given))
    assert run(*words, "linear", "--ascii").exit_code == 0
    assert opened == [(str(samples()["linear"]), "light", True)]


def test_a_folder_is_listed(folder):
    assert [found.path.name for found in traces_in(folder)] == ["new.json", "old.json.gz"]
    result = run(str(folder))
    assert result.exit_code == 0
    first, second, _, how = result.stdout.splitlines()
    assert first.endswith(f"just now  {folder / 'new.json'}")
    assert second.endswith(f"2 h ago  {folder / 'deep' / 'er' / 'old.json.gz'}")
    assert how == f"To open one: tracetui {folder / 'new.json'}"


def test_names_in_a_folder_are_shown_harmlessly(folder):
    shutil.copy(folder / "new.json", folder / "a\x1b[31m; rm x\n.json")
    result = run(str(folder))
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 5
    assert "\x1b" not in result.stdout


def test_a_folder_without_traces_is_an_error(tmp_path):
    result = run(str(tmp_path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no torch.profiler traces in this folder" in result.stderr


def test_a_folder_on_a_terminal_can_be_chosen_from(folder):
    shutil.copy(LLAMA, folder / "b.json.gz")
    terminal = Terminal(str(folder))
    shown = terminal.read("old.json.gz")
    names = [word for word in shown.split() if word.endswith((".json", ".json.gz"))]
    assert names[:3] == ["b.json.gz", "new.json", "deep/er/old.json.gz"]
    terminal.press("\r")
    terminal.read("ProfilerStep#2")
    terminal.press("q")
    assert terminal.wait() == 0


@pytest.mark.parametrize(("words", "code", "meant"), [
    (["sumary"], 2, "summary"), (["trian"], 2, "demo train"), (["matmul_ad"], 2, "capture matmul_add"),
    (["demo", "tarin"], 1, "train"), (["capture", "atention"], 2, "attention"),
    (["capture", "trian.py"], 2, "train.py"), (["trian.json"], 1, "train.json"),
    (["ran.json.gz"], 1, "rank_of_eight.json.gz"), (["table", "./trian.json"], 1, "./train.json"),
    (["rank_of_eight"], 2, "rank_of_eight.json.gz"), (["rank_of_eight.jsn"], 2, "rank_of_eight.json.gz"),
    (["table", "--limt", "3", "x"], 2, "--limit")
])  # fmt: skip
def test_what_was_mistyped_is_named(words, code, meant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("train.json", "train.py", "rank_of_eight.json.gz", "man.json.gz"):
        (tmp_path / name).touch()
    result = run(*words)
    assert result.exit_code == code
    assert f"did you mean {meant}?" in result.stderr.lower().replace("'", "")


def test_more_than_two_traces_are_too_many(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [f"rank{n}.json" for n in range(3)]
    for name in names:
        (tmp_path / name).touch()
    result = run(*names)
    assert result.exit_code == 2
    assert "at most two traces" in result.stderr
    assert "got 3" in result.stderr


def test_what_is_like_nothing_has_no_suggestion():
    result = run("xyzzy")
    assert result.exit_code == 2
    assert "no command or file 'xyzzy'" in result.stderr
    assert "mean" not in result.stderr
