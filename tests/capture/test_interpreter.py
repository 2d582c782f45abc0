"""Which Python runs a capture when tracetui's own environment has no PyTorch."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tracetui.capture import interpreter
from tracetui.capture.events import Failed
from tracetui.capture.process import StartError
from tracetui.capture.run import start

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the Pythons here are shell scripts")


@pytest.fixture(autouse=True)
def nothing_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """No PyTorch here, no active environment, nothing on the PATH."""
    monkeypatch.setattr(interpreter, "find_spec", lambda name: None)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "TRACETUI_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")


def environment(folder: Path, torch: bool, name: str = "python", shell: str = "") -> Path:
    """An environment's folder; its Python is this one without site-packages, with or without a torch."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / "torch").mkdir(parents=True)
    (folder / "lib" / "torch" / "__init__.py").write_text("raise SystemExit('imported')")
    path = f"PYTHONPATH={folder / 'lib'}" if torch else "PYTHONPATH="
    python = folder / "bin" / name
    python.write_text(f'#!/bin/sh\n{shell}\n{path} exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return folder


def test_active_environments_come_before_the_path(tmp_path, monkeypatch):
    venv, conda, on_path = (environment(tmp_path / name, True) for name in ("venv", "conda", "path"))
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    monkeypatch.setenv("CONDA_PREFIX", str(conda))
    monkeypatch.setenv("VIRTUAL_ENV", str(venv))
    for folder, why in ((venv, "VIRTUAL_ENV"), (conda, "CONDA_PREFIX"), (on_path, "python on the PATH")):
        python = str(folder / "bin" / "python")
        assert interpreter.find_python(None) == (python, f"using PyTorch from {python} ({why})")
        monkeypatch.delenv(why, raising=False)


def test_one_without_pytorch_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", str(environment(tmp_path / "venv", False)))
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "gone"))
    has = environment(tmp_path / "path", True, "python3")
    monkeypatch.setenv("PATH", str(has / "bin"))
    assert interpreter.find_python(None)[0] == str(has / "bin" / "python3")


def test_a_named_python_wins(tmp_path, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", str(environment(tmp_path / "venv", True)))
    named = environment(tmp_path / "named", False)
    assert interpreter.find_python(str(named)) == (str(named / "bin" / "python"), "")


def test_none_is_said_with_what_was_tried(tmp_path, monkeypatch):
    venv = environment(tmp_path / "venv", False)
    monkeypatch.setenv("VIRTUAL_ENV", str(venv))
    with pytest.raises(StartError) as error:
        interpreter.find_python(None)
    assert f"nor in {venv / 'bin' / 'python'}." in str(error.value)
    assert "--python PATH" in str(error.value)


def test_a_folder_called_torch_here_is_none(tmp_path, monkeypatch):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTUAL_ENV", str(environment(tmp_path / "venv", False)))
    with pytest.raises(StartError):
        interpreter.find_python(None)


def test_a_python_in_the_current_folder_is_not_run(tmp_path, monkeypatch):
    environment(tmp_path / "here", True)
    monkeypatch.chdir(tmp_path / "here" / "bin")
    for path in (".", "", ":/nowhere"):
        monkeypatch.setenv("PATH", path)
        with pytest.raises(StartError):
            interpreter.find_python(None)


def test_one_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(interpreter, "PROBE_SECONDS", 0.5)
    slow = environment(tmp_path / "slow", True, shell="exec sleep 60")
    monkeypatch.setattr(interpreter, "active_pythons", lambda: iter([(str(slow / "bin" / "python"), "")] * 3))
    began = time.monotonic()
    with pytest.raises(StartError):
        interpreter.find_python(None)
    assert time.monotonic() - began < 60


def test_the_note_comes_before_the_child_starts(tmp_path, monkeypatch, options):
    monkeypatch.setenv("VIRTUAL_ENV", str(environment(tmp_path / "v\x1b[31m", True)))
    capture = start(options())
    end = capture.wait()
    notes = [event.text for event in capture.events if hasattr(event, "kind") and event.kind == "python"]
    assert len(notes) == 1
    assert "(VIRTUAL_ENV)" in notes[0]
    assert "\x1b" not in notes[0]
    assert isinstance(end, Failed)  # this torch ends the program


@pytest.mark.torch
def test_looking_imports_no_torch():
    code = "import sys; from tracetui.capture.interpreter import find_python as find; print(find(None))"
    ran = subprocess.run(
        [sys.executable, "-c", code + "; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    found, modules = ran.stdout.splitlines()
    assert found == str((sys.executable, ""))
    assert "torch" not in modules.split()
