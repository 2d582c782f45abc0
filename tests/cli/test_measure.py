"""Predict, then measure: the commands that `whatif` names, and the prediction beside what they measured."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.compare.test_in_turn import ROUNDS, in_turn
from tests.conftest import SAMPLES

from tracetui.capture.measure import commands
from tracetui.capture.options import CaptureOptions
from tracetui.cli.main import main
from tracetui.replay.worths import Worth

pytestmark = pytest.mark.usefixtures("state")

Row = tuple[str, str, float]


def words(options: CaptureOptions | None, *rows: Row, on_gpu: bool = True) -> list[str]:
    """Of a step of 10 ms."""
    each = [Worth(kind, name, ns, None, np.zeros(0, np.int64), None) for kind, name, ns in rows]
    return [command for _, command in commands(options, 10e6, each, on_gpu)]


def test_the_option_that_brings_it_about() -> None:
    train = CaptureOptions("train", {"optimizer": "plain", "loss": "item"}, dtype="bf16", active=9)
    graphs, dispatch, sync = (("cause", name, 5e6) for name in ("graphs", "dispatch", "sync"))
    own = "train --optimizer plain --loss item"
    assert words(train, graphs, dispatch, sync, ("annotation", "optimizer", 1234567.0)) == [
        f"tracetui capture {own} --against '{own} --compile --mode reduce-overhead' --predicted 0.005s",
        f"tracetui capture {own} --against '{own} --compile' --predicted 0.005s",
        f"tracetui capture {own} --against 'train --optimizer plain --loss kept' --predicted 0.005s",
        f"tracetui capture {own} --against 'train --loss item --optimizer fused' --predicted 0.00123s",
    ]
    compiled = CaptureOptions("mlp", dtype="fp32", compile=True)
    (command,) = words(compiled, graphs, dispatch, sync)
    a = "mlp --dtype fp32 --compile"
    assert command.startswith(f"tracetui capture {a} --against '{a} --mode reduce-overhead' ")


def test_none_where_no_option_does() -> None:
    mlp = CaptureOptions("mlp", dtype="bf16")
    assert not words(mlp, ("cause", "host", 5e6), ("cause", "sync", 5e6), ("annotation", "optimizer", 5e6))
    assert not words(mlp, ("cause", "dispatch", 0.01e6))  # too little to measure
    assert not words(mlp, ("cause", "graphs", 5e6), on_gpu=False)
    assert not words(CaptureOptions("m:f"), ("cause", "dispatch", 5e6))
    assert not words(CaptureOptions("mlp", against="mlp --compile"), ("cause", "dispatch", 5e6))
    assert not words(None, ("cause", "dispatch", 5e6))


@pytest.mark.parametrize("sample", ["train", "llm_decode"])
def test_what_whatif_names_can_be_captured(sample: str) -> None:
    ran = CliRunner().invoke(main, ["whatif", str(SAMPLES / f"{sample}.json.gz"), "--json"])
    found = json.loads(ran.stdout)["measures"]
    assert [one["name"] for one in found] == ["graphs", "dispatch"]
    shown = CliRunner().invoke(main, ["whatif", str(SAMPLES / f"{sample}.json.gz")]).stdout
    for one in found:
        tracetui, capture, target, *_ = shlex.split(one["command"])
        assert (tracetui, capture) == ("tracetui", "capture")
        assert target in ("train", "llm")
        assert f"    {one['command']}\n" in shown


def test_no_command_for_a_trace_that_is_no_capture(tmp_path: Path) -> None:
    alone = tmp_path / "train.json.gz"
    shutil.copy(SAMPLES / "train.json.gz", alone)
    ran = CliRunner().invoke(main, ["whatif", str(alone)])
    assert ran.exit_code == 0
    assert "Measure it" not in ran.stdout


def test_predicted_beside_measured(tmp_path: Path) -> None:
    options = CaptureOptions("train", {"optimizer": "plain"}, against="--optimizer fused", predicted=0.00025)
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": in_turn(ROUNDS)}))
    (tmp_path / "trace.meta.json").write_text(json.dumps({"options": asdict(options)}))
    said = CliRunner().invoke(main, ["compare", str(tmp_path / "trace.json")], env={"COLUMNS": "200"}).stdout
    assert "A  train --optimizer plain, 5 steps" in said
    assert "B  train --optimizer fused, 5 steps" in said
    assert "Predicted was -250 µs a step at most; -200 µs was measured." in " ".join(said.split())
    data = json.loads(CliRunner().invoke(main, ["compare", str(tmp_path / "trace.json"), "--json"]).stdout)
    assert data["paired"]["predicted_ns"] == -250_000
