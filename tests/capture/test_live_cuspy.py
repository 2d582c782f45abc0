"""Jobs that use Cuspy, PyTorch's second profiler: attach and --inject do not take it away in silence."""

import subprocess
import sys

import pytest

from tracetui.capture.live import cuspy, inject, procfs
from tracetui.capture.live.inject import record_injected
from tracetui.capture.live.model import AttachError, RecordRequest
from tracetui.capture.live.processes import Process
from tracetui.capture.live.record import record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
MAPS = "7f0-7f1 r-xp 0 00:00 1 /env/site-packages/cupti/cupti.cpython-312-x86_64-linux-gnu.so\n"


@pytest.mark.parametrize(("files", "command", "named"), [
    ({"train.py": "tp.CuspyConfig()"}, "python -u train.py --x", "train.py"),
    ({"train.py": "{'backend': 'cuspy'}"}, "torchrun --nproc-per-node 2 train.py", "train.py"),
    ({"train.py": "import torch, profiling\nfrom lib.prof import x", "lib/prof.py": "CuspyConfig"},
     "python train.py", "lib/prof.py"),
    ({"pkg/train.py": "CuspyConfig"}, "python -m pkg.train", "pkg/train.py"),
    ({"pkg/__init__.py": "", "pkg/__main__.py": "CuspyConfig"}, "python -m pkg", "pkg/__main__.py"),
    ({"a.py": "import b", "b.py": "import a"}, "python a.py", None),
    ({"train.py": "import torch.profiler"}, "python train.py", None),
    ({}, "python missing.py -m", None),
    ({}, "", None),
])  # fmt: skip
def test_the_source_that_names_it(files, command, named, tmp_path):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert cuspy.named_in(command.split(), str(tmp_path)) == (named and str(tmp_path / named))


def process(pid: int, *command: str) -> Process:
    return Process(pid, pid, 1, 0, command, "me", None, 1, None)


def test_attach_refuses_a_process_that_has_begun(tmp_path, monkeypatch):
    place = tmp_path / "proc" / "4242"
    place.mkdir(parents=True)
    (place / "maps").write_text(MAPS)
    monkeypatch.setattr(procfs, "PROC", tmp_path / "proc")
    with pytest.raises(AttachError, match="process 4242 uses Cuspy"):
        next(record([process(4242)], RecordRequest(), tmp_path))
    (place / "maps").write_text(MAPS.replace("cupti", "numpy"))
    assert not cuspy.used_by(4242)
    assert not cuspy.used_by(4243)


def test_inject_refuses_it_too(monkeypatch, tmp_path):
    monkeypatch.setattr(cuspy, "used_by", lambda pid: True)
    monkeypatch.setattr(inject, "_run", _says_3_14)
    asleep = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with pytest.raises(AttachError, match="uses Cuspy"):
            list(record_injected(asleep.pid, RecordRequest(), tmp_path))
    finally:
        asleep.kill()
        asleep.communicate()


def _says_3_14(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], 0, "3 14 True\n", "")


def test_attach_says_what_one_loses_that_has_not(tmp_path):
    from tracetui.capture.live.record import _of_cuspy

    script = tmp_path / "user.py"
    script.write_text("input()  # CuspyConfig\n")
    asleep = subprocess.Popen([sys.executable, "user.py"], cwd=tmp_path, stdin=subprocess.PIPE)
    try:
        (note,) = _of_cuspy([process(asleep.pid, sys.executable, "user.py")])
        assert f"process {asleep.pid} seems to use Cuspy at some time" in note
        assert not _of_cuspy([process(asleep.pid, sys.executable, "other.py")])
    finally:
        asleep.kill()
        asleep.communicate()
