"""Achieved rates on a sample whose work is known by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

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


def test_the_products_of_the_mlp(samples: Path) -> None:
    report = json.loads(run(str(samples / "mlp_eager.json.gz"), "--json"))
    products = [row for row in report["ops"] if row["kind"] == "gemm"]
    assert sum(row["calls"] for row in products) == 9  # three per step, three steps
    for row in products:
        assert row["flops"] == row["calls"] * PRODUCT
        assert row["tflops"] == pytest.approx(row["flops"] / row["duration_ns"] / 1e3)
        assert row["compute_share"] == pytest.approx(row["tflops"] / report["peak"]["tflops"]["bf16"])
        assert 0.1 < row["compute_share"] < 1
    assert report["device"] == "NVIDIA H200"


def test_a_step_has_a_third_of_the_calls(samples: Path) -> None:
    path = str(samples / "mlp_eager.json.gz")
    steps = json.loads(run(path, "--json", "--scope", "step:3"))
    assert sum(row["calls"] for row in steps["ops"] if row["kind"] == "gemm") == 3


@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit(samples: Path, width: int) -> None:
    from tracetui.analysis.part import Part
    from tracetui.trace import load
    from tracetui.views.efficiency_text import efficiency_blocks

    lines = report_lines(efficiency_blocks(efficiency_of(Part(load(samples / "train.json.gz")))), width)
    text = plain_text(lines)
    assert max(map(len, text.splitlines())) <= width
    assert "Operators" in text
    assert "Kernels" in text
    assert "NVIDIA H200 Tensor Core GPU data sheet" in " ".join(text.split())


def test_without_shapes_it_says_so(samples: Path) -> None:
    recorded = Path(__file__).parent.parent / "data" / "mlp_eager.json.gz"
    assert "No shapes were recorded" in run(str(recorded))
    assert json.loads(run(str(recorded), "--json"))["recorded"] is False
    assert "No shapes were recorded" in run(str(recorded), "--markdown")


def test_all_rows_are_shown_without_a_limit(samples: Path) -> None:
    path = str(samples / "mlp_eager.json.gz")
    assert "more: --limit 0" in run(path, "--limit", "1")
    assert "more: --limit 0" not in run(path, "--limit", "0")


def test_the_table_sorts_by_what_it_shows(samples: Path) -> None:
    found = efficiency_of(Part(load(samples / "mlp_eager.json.gz")))
    table, rows = efficiency_table(found), (*found.kernels, *found.ops)
    assert [column.right for column in table.columns[:3]] == [False, False, True]
    for key in ("tflops", "gbps", "compute_share", "memory_share"):
        values = [getattr(rows[row], key) for row in arrange(table, key, True).tolist()]
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=True) == values[: len(known)]
        assert len(set(known)) > 1
