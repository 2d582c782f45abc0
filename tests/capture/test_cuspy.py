"""Captures by Cuspy, PyTorch's second profiler, over a stand-in for it; what is said where it cannot be."""

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.capture.conftest import events_of

from tracetui.capture.events import Done, Note
from tracetui.capture.options import CaptureOptions, OptionError
from tracetui.capture.run import start

STANDIN = Path(__file__).with_name("cuspy_standin.py")
Make = Callable[..., CaptureOptions]
TRAINS = """
import torch, program
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
program.start_gpu()
def one():
    model(torch.randn(2, 8)).sum().backward()
    optimizer.step()
"""
SEVEN = TRAINS + "for _ in range(12): one()\n"
ITS_OWN = """
import torch.profiler as tp
def own(*activities):
    with tp.profile(activities=[tp.ProfilerActivity.CPU, *activities]) as prof:
        one()
    prof.export_chrome_trace(OUT)
def second():
    config = tp.ProfilerActivityConfig(profiler_configs=[getattr(tp, "Cus" "pyConfig")()])
    own({tp.ProfilerActivity.CUDA: config})
"""


class Ran:
    """A capture that has ended."""

    def __init__(self, options: CaptureOptions, said: Path) -> None:
        capture = start(options)
        self.end = capture.wait()
        self.said = [json.loads(line) for line in said.read_text().splitlines()] if said.exists() else []
        notes = [event for event in capture.events if isinstance(event, Note)]
        self.told = [note.text for note in notes]
        self.notes = {note.kind: note.text for note in notes}

    @property
    def trace(self) -> Path:
        assert isinstance(self.end, Done), self.end
        return self.end.result.trace

    @property
    def info(self) -> dict[str, Any]:
        assert isinstance(self.end, Done), self.end
        return self.end.result.info


@pytest.fixture
def run(tmp_path: Path, options: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Captures a script with the stand-in in place; `words` are for that."""
    place = tmp_path / "standin"
    place.mkdir()
    # Not as a module of its own, which would be one that names Cuspy.
    (place / "sitecustomize.py").write_text(
        f"exec(open({str(STANDIN)!r}).read(), {{'__name__': '__main__'}})"
    )
    for name in ("cupti", "elftools"):
        (place / f"{name}.py").touch()

    def go(text: str, words: str = "", **how: Any) -> Ran:
        script, said = tmp_path / "train.py", tmp_path / "said"
        script.write_text(text.replace("OUT", repr(str(tmp_path / "own.json"))))
        monkeypatch.setenv("PYTHONPATH", str(place))
        monkeypatch.setenv("STANDIN", words)
        monkeypatch.setenv("STANDIN_SAID", str(said))
        target = how.pop("target", str(script))
        return Ran(options(target, device="auto", **{"profiler": "cuspy", **how}), said)

    return go


@pytest.mark.torch
def test_the_options_reach_cuspy_and_its_trace_is_kept_as_json(run):
    ran = run(SEVEN, counters="sm,power", graph_dependencies=True)
    assert ran.trace.name == "train.json"
    assert json.loads(ran.trace.read_text())["traceName"] == "train.json"
    assert "gemm" in [event["name"] for event in events_of(ran.trace)]
    assert (ran.info["profiler"], ran.info["steps"]) == ("cuspy", 3)
    (said,) = ran.said
    assert said["config"] == {
        "enable_cuda_sync_events": True, "enable_environment_counters": True,
        "enable_graph_dependencies": True, "enable_event_node_ids": True
    }  # fmt: skip
    assert said["metrics"]["metric_names"] == ["sm__cycles_active.avg.pct_of_peak_sustained_elapsed"]
    # What was tried and thrown away before is given up, and the GPU has done all that it was told to.
    assert said["registered"] == 0
    assert said["waited"] > 0
    assert set(ran.notes) == {"stopped"}


@pytest.mark.torch
def test_a_trace_for_perfetto(run):
    ran = run(SEVEN, pftrace=True)
    assert ran.trace.name == "train.pftrace.gz"
    assert b"ProfilerStep#" in gzip.decompress(ran.trace.read_bytes())
    assert (ran.info["steps"], set(ran.notes)) == (3, {"stopped"})


@pytest.mark.torch
@pytest.mark.long
def test_a_function_is_tried_before_its_steps(run, tmp_path, monkeypatch):
    """Where steps are skipped first, it would show too late whether Cuspy starts."""
    monkeypatch.chdir(tmp_path)
    ran = run("import torch\ndef step(): torch.ones(8).sum()\n", target="train:step", counters="dram")
    assert (ran.info["profiler"], ran.info["steps"]) == ("cuspy", 3)
    (said,) = ran.said
    assert said["metrics"]["metric_names"] == ["gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"]
    assert said["registered"] == 0
    ran = run("import torch\ndef step(): torch.ones(8).sum()\n", "crashes", target="train:step")
    assert (ran.info["profiler"], ran.info["steps"]) == ("kineto", 3)
    assert ran.notes["kineto"].endswith("ImportError: libcupti.so.13: cannot open shared object file")


@pytest.mark.torch
@pytest.mark.long
def test_counters_that_are_refused_are_named_once(run):
    ran = run(SEVEN, "refuses", counters="sm,dram,power")
    (line,) = [text for text in ran.told if "counters" in text]
    assert line.startswith("counters (sm, dram) are not recorded: an administrator has to allow them")
    assert ran.said[0]["config"]["enable_environment_counters"]
    assert (ran.trace.name, ran.info["profiler"]) == ("train.json", "cuspy")


@pytest.mark.torch
@pytest.mark.long
def test_a_cuspy_that_does_not_start_is_replaced(run):
    ran = run(SEVEN, "crashes", pftrace=True)
    line = "ImportError: libcupti.so.13: cannot open shared object file"
    assert ran.notes["kineto"] == f"recording with Kineto, not Cuspy: {line}"
    assert (ran.trace.name, ran.info["profiler"], ran.info["steps"]) == ("train.json", "kineto", 3)


@pytest.mark.torch
@pytest.mark.long
def test_missing_packages_are_named(run, tmp_path):
    ran = run("import sys; sys.path.remove(" + repr(str(tmp_path / "standin")) + ")\n" + SEVEN)
    line = f"cupti-python and pyelftools missing: {sys.executable} -m pip install cupti-python pyelftools"
    assert ran.notes["kineto"].endswith(line)


@pytest.mark.torch
def test_an_older_pytorch_says_so(options):
    end = start(options("matmul_add", profiler="cuspy")).wait()
    assert isinstance(end, Done)
    notes = {note.kind: note.text for note in end.result.notes}
    assert "does not have it, 2.15 and newer do" in notes["kineto"]
    assert end.result.info["profiler"] == "kineto"


@pytest.mark.torch
@pytest.mark.long
def test_a_script_with_its_own_kineto_keeps_the_gpu(run, tmp_path):
    ran = run(SEVEN + ITS_OWN + "own(tp.ProfilerActivity.CUDA)\n")
    assert "seems to have a profiler of its own" in ran.notes["kineto"]
    assert (ran.info["profiler"], ran.info["steps"]) == ("kineto", 3)


@pytest.mark.torch
@pytest.mark.parametrize("way", [pytest.param("ours is Kineto", marks=pytest.mark.long), "ours is Cuspy"])
def test_a_script_with_its_own_cuspy_gets_its_trace(way, run, tmp_path):
    """It is named in a module of the program, or ours leaves the GPU to it."""
    named = "# CuspyConfig\n"
    ran = run(named + TRAINS + ITS_OWN + "second()\n", profiler=way.split()[-1].lower())
    assert ran.trace == tmp_path / "own.json.gz"
    assert not any("cannot" in text for text in ran.told)


@pytest.mark.torch
@pytest.mark.parametrize(("ours", "own", "lost"), [
    ("kineto", "second()", "Cuspy cannot record a GPU after Kineto, so it writes no trace"),
    pytest.param(
        "cuspy", "own(CUDA)", "Kineto cannot record a GPU after Cuspy, so its trace has no GPU work",
        marks=pytest.mark.long,
    ),
])  # fmt: skip
def test_what_a_profiler_loses_to_ours_is_said(ours, own, lost, run, tmp_path):
    """Where nothing in its files tells that it comes, as from a library."""
    library = tmp_path / "lib" / "site-packages"
    library.mkdir(parents=True)
    text = ITS_OWN.replace("OUT", repr(str(tmp_path / "own.json"))) + "CUDA = tp.ProfilerActivity.CUDA\n"
    text += f"def use(step):\n    globals().update(one=step)\n    {own}\n"
    (library / "library.py").write_text(text)
    begin = f"import sys; sys.path.append({str(library)!r})\n"
    ran = run(begin + TRAINS + "import library; library.use(one)\n", profiler=ours)
    assert any(lost in text for text in ran.told)


@pytest.mark.parametrize(("how", "words"), [
    ({"counters": "sm"}, "--counters needs --profiler cuspy"),
    ({"graph_dependencies": True}, "--graph-dependencies needs --profiler cuspy"),
    ({"pftrace": True}, "--pftrace needs --profiler cuspy"),
    ({"profiler": "cuspy", "counters": "sm,l2"}, "--counters takes sm, dram, power; got 'l2'"),
    ({"profiler": "nsys"}, "--profiler must be one of kineto, cuspy")
])  # fmt: skip
def test_options_that_cannot_be(how, words):
    with pytest.raises(OptionError, match=words):
        CaptureOptions("mlp", **how).check()
    options = CaptureOptions("mlp", profiler="cuspy", counters="sm", graph_dependencies=True, pftrace=True)
    options.check()
    assert options.command().endswith("mlp --profiler cuspy --counters sm --graph-dependencies --pftrace")
