"""Tables as the screen has them: which columns a width leaves, their cells and orders, what a file gets."""

import hashlib
import json
from functools import cache
from pathlib import Path

import pytest
from tests.golden.made import made_events, write_made
from tests.kineto import trace_of
from tests.recorded import load

from tracetui.analysis.calls.averages import averages_of, memory_use_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.steps import steps_of
from tracetui.views.averages import averages_table
from tracetui.views.gaps import gaps_table
from tracetui.views.model import Table, arrange, fit
from tracetui.views.steps import steps_table
from tracetui.views.writers import row_count, table_text

SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"
ROWS = 6


@cache
def sample(name: str) -> Part:
    return Part(load(SAMPLES / f"{name}.json.gz"))


def made(tmp_path: Path) -> Part:
    return Part(load(write_made(tmp_path)))


def of_the_cpu(tmp_path: Path) -> Part:
    return Part(
        trace_of(tmp_path, *(e for e in made_events() if e.get("cat") in ("cpu_op", "user_annotation")))
    )


def tables(results: Part) -> dict[str, Table]:
    trace, found, memory = results.trace, averages_of(results, "name"), memory_use_of(results, "name")
    parts = ("ops", "kernels", "annotations")
    return {
        **{part: averages_table(trace, found, part, memory=memory) for part in parts},
        "kernels by op": averages_table(trace, averages_of(results, "op"), "kernels"),
        "gaps": gaps_table(results), "gaps without causes": gaps_table(results, False),
        "steps": steps_table(steps_of(results))
    }  # fmt: skip


def told(table: Table) -> str:
    """Columns by width, cells of the first rows, and the first row of each order; digests of files."""
    lines = [f"{table.rows} rows; {table.empty}"]
    before = ""
    for width in range(24, 200, 4):
        shown = fit(table.columns, width)
        keys = " ".join(column.key if column.width else f"{column.key}~" for column, _ in shown)
        if keys != before:
            lines.append(f"{width:3} {keys} {shown[0][1]}")
        before = keys
    for column in table.columns:
        side = ">" if column.right else "<"
        cells = " | ".join(column.text(row).strip() for row in range(min(ROWS, table.rows)))
        lines.append(f"{column.title or column.key} {side}{column.width}: {cells}")
        if column.values is not None:
            order = [arrange(table, column.key, down)[:ROWS].tolist() for down in (True, False)]
            lines.append(f"  by it {order}")
    if table.dim is not None:
        lines.append(f"dim: {[row for row in range(table.rows) if table.dim(row)][:9]}")
    lines += [f"with {text!r}: {len(arrange(table, None, False, text))}" for text in ("a", "cpu", "add")]
    whole = arrange(table, None, False)
    for ending in (".csv", ".json", ".md"):
        text = table_text(table, whole, ending)
        lines.append(f"{ending}: {row_count(table, whole)}, {hashlib.sha1(text.encode()).hexdigest()[:8]}")
    if table.rows:
        lines.append(json.dumps(json.loads(table_text(table, whole[:1], ".json")), ensure_ascii=False)[:3000])
    return "\n".join(lines)


@pytest.mark.parametrize(
    "trace", ["made", "made, of the CPU", "train_memory", "train_ddp", "matmul_add_64_cold"]
)
def test_tables_of_the_screen(trace, tmp_path, golden):
    makers = {"made": made, "made, of the CPU": of_the_cpu}
    for name, table in tables(makers[trace](tmp_path) if trace in makers else sample(trace)).items():
        golden("screens", f"{name} of {trace}", told(table))
