"""What every command prints about some traces, as text, Markdown and JSON."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.golden.made import write_made
from tests.recorded import load

from tracetui.analysis.part import WHOLE, Part
from tracetui.analysis.steps.scope import find_steps, step_scope
from tracetui.cli.main import main
from tracetui.rules import find_findings
from tracetui.rules.claims import claims_json
from tracetui.views import terminal

SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"
DATA = Path(__file__).parent.parent / "data"
RECORDED = sorted((*SAMPLES.glob("*.json.gz"), *DATA.glob("*.json.gz")))
HEAD, TAIL = 8, 2
"""How much of a long list is kept as it is, at its beginning and end."""
REPORTS = ("table --name-width 30", "gaps", "steps", "summary", "findings", "efficiency")
FORMS = ("", " --json", " --markdown")
SCOPED = (
    "table --group shape", "table --group op --markdown", "table --group kernel --json",
    "table --group annotation --sort count --limit 7", "table --scope step:2 --name-width 20 --sort name",
    "table --scope step:2 --json", "gaps --min 5us --limit 3", "gaps --scope step:2 --json",
    "gaps --scope range:100us..400us", "steps --limit 1", "steps --scope step:2 --json",
    "summary --scope step:2", "summary --fail-under busy=0.9 --fail-under overlap=0.5",
    "summary --scope range:100us..400us --json", "findings --scope step:2", "efficiency --limit 2",
    "efficiency --scope step:2 --json"
)  # fmt: skip
PLAIN = tuple(report + form for report in REPORTS for form in FORMS)
CASES = [
    *(("made", command) for command in (*PLAIN, *SCOPED, "check", "table --python-functions --json")),
    *(("mlp_eager", command) for command in (*PLAIN, *SCOPED)),
    *((name, command) for name in ("matmul_add_64_cold", "attention_naive") for command in PLAIN),
    *(("mlp_compile", report) for report in (*REPORTS, "findings --json")),
    *(("mlp_cuda_graph", report) for report in (*REPORTS, "findings --json")),
    *(("train_ddp", report) for report in ("summary --json", "findings --json", "efficiency --json")),
    *(("train", f"whatif{options}") for options in ("", " --json", " --graphs --cpu 2x", " --markdown")),
    ("train_ddp", "whatif"),
    ("made", "whatif --json"),
    *(("train_memory", report) for report in ("table --json", "summary --json", "findings --json")),
]


COMPARED = [
    ("mlp_eager", "mlp_compile"), ("attention_naive", "attention_sdpa"),
    ("matmul_add_4096_eager", "matmul_add_4096_compile"), ("train", "train")
]  # fmt: skip


def brief(value: Any) -> Any:
    """JSON with ten digits, and the middle of long lists told by a digest."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, dict):
        return {key: brief(inner) for key, inner in value.items()}
    if isinstance(value, list):
        short = [brief(inner) for inner in value]
        middle = short[HEAD:-TAIL]
        if len(middle) > HEAD:
            digest = hashlib.sha1(json.dumps(middle).encode()).hexdigest()
            return [*short[:HEAD], f"{len(middle)} more, {digest}", *short[-TAIL:]]
        return short
    return value


def lines(value: Any, indent: str = "") -> str:
    """JSON with each innermost object or list on one line, and the claims of a finding."""
    inner = list(value.values()) if isinstance(value, dict) else value
    claims = isinstance(value, dict) and any(isinstance(i, dict) and "kind" in i for i in inner)
    if claims or not isinstance(inner, list) or not any(isinstance(i, (dict, list)) for i in inner):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        keys = [f"{json.dumps(key)}: " for key in value]
    else:
        keys = [""] * len(inner)
    parts = [f"{indent} {k}{lines(i, indent + ' ')}" for k, i in zip(keys, inner, strict=True)]
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}\n" + ",\n".join(parts) + f"\n{indent}{right}"


@pytest.mark.parametrize(("trace", "command"), CASES)
def test_command(trace, command, golden, tmp_path, monkeypatch):
    path = SAMPLES / f"{trace}.json.gz"
    if trace == "made":
        path = write_made(tmp_path)
    monkeypatch.chdir(path.parent)
    report, *options = command.split()
    result = CliRunner().invoke(main, [report, path.name, *options])
    text = result.stdout
    if "--json" in options:
        text = lines(brief(json.loads(text)))
    if result.stderr:
        text += f"\n{result.stderr}"
    if result.exit_code:
        text += f"\nexit code {result.exit_code}"
    golden(f"{trace}", f"tracetui {report} {path.name} {' '.join(options)}".rstrip(), text)


@pytest.mark.parametrize("form", ["", *FORMS[1:], "--averages 5 --fail-over step=1% --fail-over launches=0"])
@pytest.mark.parametrize(("one", "other"), COMPARED)
def test_compare(one, other, form, golden, monkeypatch):
    monkeypatch.chdir(SAMPLES)
    names = [f"{name}.json.gz" for name in (one, other)]
    result = CliRunner().invoke(main, ["compare", *names, *form.split()])
    text = lines(brief(json.loads(result.stdout))) if "--json" in form else result.stdout
    text += f"\n{result.stderr}" if result.stderr else ""
    text += f"\nexit code {result.exit_code}" if result.exit_code else ""
    golden("compare", f"tracetui compare {' '.join(names)} {form.strip()}".rstrip(), text)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name.split('.')[0]}")
def test_findings(path, golden):
    """Of every recorded trace, and of its steps: what they claim."""
    trace = load(path)
    told = []
    for scope in (WHOLE, *(step_scope(trace, int(number)) for number in find_steps(trace).number[:2])):
        for finding in find_findings(Part(trace).in_scope(scope)):
            numbers = {key: float(f"{value:.7g}") for key, value in finding.numbers.items()}
            told.append(f"{scope.label}: {finding.severity} {finding.rule}")
            if scope is WHOLE:
                told.append(f"  {json.dumps(brief(claims_json(finding.claims)), ensure_ascii=False)}")
            told.append(f"  {numbers} {finding.evidence[:6]}")
    golden("findings", f"{path.parent.name}/{path.name}", "\n".join(told))


@pytest.mark.parametrize("name", ["mlp_eager", "train_memory"])
def test_the_table_on_terminals(name, golden, monkeypatch):
    """Which columns give way where the terminal is narrow."""
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    lines = []
    for width in range(40, 260, 10):
        monkeypatch.setattr(terminal, "terminal_width", lambda width=width: width)
        result = CliRunner().invoke(main, ["table", str(SAMPLES / f"{name}.json.gz"), "--limit", "1"])
        lines += [f"{width}:", *result.stdout.splitlines()[1:4:2]]
    golden("terminals", name, "\n".join(lines))
