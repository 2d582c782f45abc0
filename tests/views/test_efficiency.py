"""Achieved rates on a sample whose work is known by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.kineto import cpu, kernel, launch, trace_of

from tracetui.analysis.part import Part
from tracetui.analysis.rates.efficiency import efficiency_of
from tracetui.cli import main
from tracetui.trace import load
from tracetui.views.document_text import report_lines
from tracetui.views.efficiency import efficiency_table
from tracetui.views.lines import plain_text
from tracetui.views.model import arrange

PRODUCT = 2 * 8192 * 768 * 3072
"""FLOP of each of the MLP's three products: 64 x 128 tokens, 768 to 3072 and back."""


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["efficiency", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_products_of_the_mlp(samples):
    report = json.loads(run(str(samples / "mlp_eager.json.gz"), "--json"))
    products = [row for row in report["ops"] if row["kind"] == "gemm"]
    assert sum(row["calls"] for row in products) == 9  # three per step, three steps
    for row in products:
        assert row["flops"] == row["calls"] * PRODUCT
        assert row["tflops"] == pytest.approx(row["flops"] / row["duration_ns"] / 1e3)
        assert row["compute_share"] == pytest.approx(row["tflops"] / report["peak"]["tflops"]["bf16"])
        assert 0.1 < row["compute_share"] < 1
    assert report["device"] == "NVIDIA H200"


def test_a_step_has_a_third_of_the_calls(samples):
    steps = json.loads(run(str(samples / "mlp_eager.json.gz"), "--json", "--scope", "step:3"))
    assert sum(row["calls"] for row in steps["ops"] if row["kind"] == "gemm") == 3


@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit(samples, width):
    from tracetui.analysis.part import Part
    from tracetui.trace import load
    from tracetui.views.efficiency_text import efficiency_blocks

    blocks = efficiency_blocks(efficiency_of(Part(load(samples / "train.json.gz"))))
    text = plain_text(report_lines(blocks, width))
    assert max(map(len, text.splitlines())) <= width
    assert "Operators" in text
    assert "Kernels" in text
    assert "NVIDIA H200 Tensor Core GPU data sheet" in " ".join(text.split())


def test_without_shapes_it_says_so(samples):
    recorded = Path(__file__).parent.parent / "data" / "mlp_eager.json.gz"
    assert "No shapes were recorded" in run(str(recorded))
    assert json.loads(run(str(recorded), "--json"))["recorded"] is False
    assert "No shapes were recorded" in run(str(recorded), "--markdown")


def test_all_rows_are_shown_without_a_limit(samples):
    path = str(samples / "mlp_eager.json.gz")
    assert "more: --limit 0" in run(path, "--limit", "1")
    assert "more: --limit 0" not in run(path, "--limit", "0")


def test_the_table_sorts_by_what_it_shows(samples):
    found = efficiency_of(Part(load(samples / "mlp_eager.json.gz")))
    table, rows = efficiency_table(found), (*found.kernels, *found.ops)
    assert [column.right for column in table.columns[:3]] == [False, False, True]
    for key in ("tflops", "gbps", "compute_share", "memory_share"):
        values = [getattr(rows[row], key) for row in arrange(table, key, True).tolist()]
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=True) == values[: len(known)]
        assert len(set(known)) > 1


GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"


def printed(tmp_path: Path, *arguments: str) -> str:
    """A command on the trace that `trace_of` wrote there."""
    report, *options = arguments
    result = CliRunner().invoke(main, [report, str(tmp_path / "t.json"), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def product(tmp_path: Path, device: str, **types: Any) -> dict[str, Any]:
    event = kernel(20, 2, 1, name=GEMM)
    event["args"]["External id"] = 1
    shapes = {"Input Dims": [[1024, 256], [256, 512]], "External id": 1} | types
    properties = {"deviceProperties": [{"id": 0, "name": device}]}
    trace_of(tmp_path, cpu("aten::mm", 0, 9, **shapes), launch(2, 1), event, **properties)
    found: dict[str, Any] = json.loads(printed(tmp_path, "efficiency", "--json"))
    return found


def test_a_device_that_is_not_known_has_no_peak(tmp_path):
    assert product(tmp_path, "Riva 128")["ops"][0]["compute_share"] is None
    text = " ".join(printed(tmp_path, "efficiency").split())
    assert "Riva 128" in text
    assert "no shares" in text
    assert "data sheet" not in text
    product(tmp_path, "NVIDIA H200")
    assert "data sheet" in " ".join(printed(tmp_path, "efficiency").split())


def test_without_types_the_kernel_s_name_tells(tmp_path):
    found = product(tmp_path, "NVIDIA H200")
    assert found["ops"][0]["dtype"] == "bf16"
    assert found["ops"][0]["gbps"] is None
