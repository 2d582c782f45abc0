"""`import tracetui as tt`: the names, their types, and that they say what the commands say."""

import html.parser
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import SAMPLES
from tests.kineto import cpu, run, step
from tests.program import output

import tracetui as tt
from tracetui.capture import run as capture_run
from tracetui.capture.events import Cancelled, Failed
from tracetui.core import plugins
from tracetui.views.registry import OURS

ROOT = Path(__file__).resolve().parents[2]
TRAIN = str(SAMPLES / "train.json.gz")


@pytest.fixture(scope="module")
def train() -> tt.Trace:
    return tt.load(TRAIN)


def python(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert not ran.returncode, ran.stderr
    return ran.stdout.strip()


def test_importing_it_imports_nothing():
    code = "import sys; old = set(sys.modules); import tracetui; print(sorted(set(sys.modules) - old))"
    assert python(code) == "['tracetui']"


def test_it_has_these_names():
    names = {"Part", "Slices", "Trace", "TraceError", "capture", "compare", "load", "views", "__version__"}
    assert set(dir(tt)) == names
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tt.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["capture", "compare", "views"])
def test_a_folder_of_the_same_name_does_not_hide_them(name):
    """Whichever is imported first."""
    used = {"capture": "run", "compare": "compare", "views": "lines"}[name]
    for first in (f"from tracetui.{name} import {used}", f"import tracetui; tracetui.{name}"):
        code = f"{first}; import tracetui.{name}; print(type(tracetui.{name}).__name__)"
        assert python(code) == ("Views" if name == "views" else "function")


def test_each_has_its_type():
    stub = (ROOT / "src" / "tracetui" / "__init__.pyi").read_text()
    assert set(re.findall(r"import (\w+) as \1$", stub, re.M)) == set(tt.__all__)


@pytest.mark.long
def test_the_types_that_a_users_script_sees(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(
        "import tracetui as tt\n"
        "t: tt.Trace = tt.load('x.json')\n"
        "share: float | None = t.part('step:2').verdict.busy_share\n"
        "rows: list[dict[str, object]] = tt.compare(t, t).rows\n"
        "made: tt.Trace = tt.capture('mlp', batch=8)\n"
        "t.no_such_thing\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(script)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert ran.stdout.splitlines()[0].endswith('"Trace" has no attribute "no_such_thing"  [attr-defined]')
    assert "Found 1 error" in ran.stdout


@pytest.mark.parametrize("name", OURS)
def test_an_answer_is_what_the_command_prints(train, name):
    answer = train.view(name)
    assert json.loads(output(name, TRAIN, "--json").stdout) == json.loads(json.dumps(answer.data()))
    assert output(name, TRAIN, "--markdown").stdout.decode() == answer.markdown()
    if name != "table":  # PyTorch's is never cut in a pipe
        assert output(name, TRAIN).stdout.decode() == answer.text(80)


def test_the_rows_of_each_view(train):
    assert list(tt.views) == list(OURS)
    data = {name: train.view(name).data() for name in OURS}
    rows = {name: train.view(name).rows for name in OURS}
    assert rows["table"] == data["table"]
    assert [{**gap, "device": 0} for gap in data["gaps"]["devices"][0]["gaps"]] == rows["gaps"]
    assert rows["steps"] == data["steps"]["steps"]
    assert rows["findings"] == data["findings"]["findings"]
    assert rows["summary"] == [data["summary"]]
    both = data["efficiency"]["ops"] + data["efficiency"]["kernels"]
    assert [{k: v for k, v in row.items() if k != "of"} for row in rows["efficiency"]] == both
    assert rows["whatif"] == data["whatif"]["worths"]


def test_a_part(train):
    parts = [train.part(f"step:{row['step']}") for row in train.steps.rows]
    assert [part.scope for part in parts] == ["step 2", "step 3"]
    assert [part.verdict.verdict for part in parts] == [row["verdict"] for row in train.steps.rows]
    assert sum(map(len, parts)) < len(train) == len(train.columns)
    assert not set(parts[0].slices) & set(parts[1].slices)
    assert train.part("whole").duration_ns == train.duration_ns
    assert len(train.part("range:0us..2ms").gaps) < len(train.gaps)
    with pytest.raises(LookupError, match="no step 9 in this trace"):
        train.part("step:9")
    with pytest.raises(ValueError, match=r"expected whole, step:N or range:FROM\.\.TO"):
        train.part("last")
    with pytest.raises(ValueError, match="a step has no steps of its own"):
        parts[0].view("steps", annotation="forward")


def test_wrong_names_of_views_and_files(train, tmp_path):
    for options in ({"sort": "length"}, {"group": "length"}):
        with pytest.raises(ValueError, match=r"unknown (column|group) 'length'"):
            train.averages(**options)
    with pytest.raises(KeyError, match="no view 'gasp': expected one of table, gaps"):
        train.view("gasp")
    with pytest.raises(tt.TraceError, match="no such file"):
        tt.load(tmp_path / "none.json")


def test_slices_are_arrays(train):
    kernels, ops = train.slices.kernels, train.slices.ops
    for column in (kernels.start, kernels.duration, kernels.end):
        assert (column.dtype, column.shape) == (np.dtype(np.int64), (len(kernels),))
    assert {train.columns.categories[i] for i in train.columns.category[kernels.at]} == {"kernel"}
    assert {train.columns.categories[i] for i in train.columns.category[ops.at]} == {"cpu_op"}
    assert sum(one.time for one in kernels.by_name()) == kernels.time == int(kernels.duration.sum())


def test_steps_and_traces_can_be_compared(train):
    steps = tt.compare(train.part("step:2"), train.part("step:3")).data()
    assert (steps["a"]["steps"], steps["b"]["steps"]) == ([2], [3])
    assert steps["a"]["name"] == "train.json.gz, step 2"
    whole = tt.compare(train, tt.load(SAMPLES / "train_memory.json.gz"))
    said = json.loads(output("compare", TRAIN, str(SAMPLES / "train_memory.json.gz"), "--json").stdout)
    assert json.loads(json.dumps(whole.data())) == said
    assert whole.rows == whole.data()["explanations"]
    with pytest.raises(ValueError, match="traces and steps can be compared"):
        tt.compare(train, train.part("range:0us..1ms"))


class Cells(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_notebook_shows_names_as_text(tmp_path):
    path = tmp_path / "t.json"
    events = [step(1, 0, 100), cpu("<script>alert(1)</script>&", 10, 20), *run(50, 10, 1)]
    events += [cpu(f"op{i}", 60 + i, 1) for i in range(30)]
    path.write_text(json.dumps({"traceEvents": events}))
    answer = tt.load(path).averages()
    shown = Cells(answer._repr_html_())
    assert shown.tags == {"table", "thead", "tbody", "tr", "th", "td", "p"}
    assert "<script>alert(1)</script>&" in shown.texts
    assert f"and {len(answer) - 20} more rows" in shown.texts


@pytest.mark.parametrize("name", OURS)
def test_frames(train, name):
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    answer = train.view(name)
    frame, table = answer.to_pandas(), answer.to_arrow()
    assert len(frame) == table.num_rows == len(answer)
    assert list(frame.columns) == table.column_names == list(answer.rows[0])


@pytest.mark.torch
def test_a_capture(tmp_path):
    pytest.importorskip("torch")
    with pytest.warns(UserWarning, match="CPU"):
        made = tt.capture(
            "mlp", batch=2, seq=2, dim=8, hidden=8, device="cpu", output=str(tmp_path), active=1
        )
    assert made.path.is_relative_to(tmp_path)
    assert "aten::linear" in {one.name for one in made.slices.ops.by_name()}
    with pytest.raises(ValueError, match="mlp has no option --width"):
        tt.capture("mlp", width=3)
    with pytest.raises(ValueError, match="width: only built-in workloads"):
        tt.capture("train.py", width=3)


class Running:
    """A capture that ends so; or, for None, is interrupted until it is canceled."""

    def __init__(self, end: Failed | None) -> None:
        self.end, self.canceled = end, False

    def wait(self) -> Failed | Cancelled:
        if self.end is None and not self.canceled:
            raise KeyboardInterrupt
        return self.end or Cancelled(0)

    def cancel(self) -> None:
        self.canceled = True


@pytest.mark.parametrize(("end", "error", "said"), [
    (None, KeyboardInterrupt, None),
    (Failed(0, "workload", "failed", ("...", "ValueError: 3")), tt.TraceError, "failed: ValueError: 3")
])  # fmt: skip
def test_a_capture_that_ends_otherwise(monkeypatch, end, error, said):
    running = Running(end)
    monkeypatch.setattr(capture_run, "start", lambda options: running)
    with pytest.raises(error, match=said):
        tt.capture("mlp")
    assert running.canceled == (end is None), "nothing is left running"


def test_plugins_that_are_left_out_are_told_once(monkeypatch):
    monkeypatch.setattr(plugins, "problems", lambda: ["plugin left out: of this test"])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            tt.load(TRAIN)
    assert [str(one.message) for one in told if one.category is RuntimeWarning] == [
        "plugin left out: of this test"
    ]
