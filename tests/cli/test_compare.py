"""`compare`: its output as a contract, its limits, steps of one trace, and baselines."""

import gzip
import json
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.conftest import COLLECTION, SAMPLES, needed

from tracetui.cli.compare import GATES, parse_limit
from tracetui.cli.main import main
from tracetui.formats.encodings import zstd
from tracetui.session.baselines import LARGEST_META
from tracetui.session.paths import meta_file
from tracetui.views import terminal
from tracetui.views.limits import METRICS

PAIRS = Path(__file__).parent.parent / "data" / "pairs"
EAGER, COMPILED, TRAIN = (str(SAMPLES / f"{name}.json.gz") for name in ("mlp_eager", "mlp_compile", "train"))
pytestmark = pytest.mark.usefixtures("analysed_once", "state")


def run(*args: str, **more: Any) -> Result:
    result = CliRunner().invoke(main, ["compare", *args], **more)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def as_json(*args: str) -> dict[str, Any]:
    result = run(*args, "--json")
    assert result.exit_code in (0, 3), result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def raw(path: str, cat: str) -> list[dict[str, Any]]:
    document = json.loads(gzip.decompress(Path(path).read_bytes()))
    return [e for e in document["traceEvents"] if e.get("cat") == cat]


# The contract
def test_the_fields_of_json():
    found = as_json(EAGER, COMPILED)
    assert list(found) == [
        "answer", "same_program", "per_step", "a", "b", "notes", "step_ns", "device_ns", "busy_share",
        "compute_ns", "communication_ns", "copies_ns", "launches", "kernels", "copied_bytes", "cpu_op_ns",
        "peak_allocated_bytes", "peak_reserved_bytes", "idle_by_cause", "machine", "explanations",
        "averages", "limits", "paired",
    ]  # fmt: skip
    for name in ("step_ns", "device_ns", "busy_share", "launches", "kernels", "cpu_op_ns", "compute_ns"):
        metric = found[name]
        assert list(metric) == [
            "a", "b", "change", "ratio", "within_noise", "machine", "spread_a", "spread_b"
        ]  # fmt: skip
        assert metric["change"] == pytest.approx(metric["b"] - metric["a"])
        assert metric["ratio"] == pytest.approx(metric["b"] / metric["a"])
        assert metric["spread_a"][0] <= metric["a"] <= metric["spread_a"][1]
    assert found["a"]["steps"] == found["b"]["steps"] == [2, 3, 4]
    assert list(found["machine"])[:2] == ["cpu_ratio", "device_ratio"]
    for one in found["idle_by_cause"]:
        assert one["change_ns"] == one["b_ns"] - one["a_ns"]
    for one in found["explanations"]:
        assert list(one)[:7] == ["kind", "text", "on", "change_ns", "cpu_change_ns", "names_a", "names_b"]
        assert len(one["evidence_a"]) == min(10, one["events_a"])
    assert found["limits"] == []


def test_counts_are_those_of_the_file():
    """The numbers per step, from the raw events: each side has three equal steps."""
    found = as_json(EAGER, COMPILED)
    for side, path in (("a", EAGER), ("b", COMPILED)):
        kernels, sets = raw(path, "kernel"), raw(path, "gpu_memset")
        assert found["kernels"][side] == len(kernels) / 3
        time = sum(e["dur"] for e in kernels + sets) * 1000 / 3
        low, high = found["device_ns"]["spread_" + side]
        assert low <= time <= high


def test_what_became_of_two_kernels():
    found = as_json(EAGER, COMPILED)
    fused = next(one for one in found["explanations"] if one["kind"] == "fused")
    assert any("GeluCUDAKernelImpl" in name for name in fused["names_a"])
    assert fused["names_b"] == ["triton_poi_fused__unsafe_view_gelu_mul_0"]
    steps = []
    for path, side in ((EAGER, "a"), (COMPILED, "b")):
        mine = sorted(
            (e for e in raw(path, "kernel") if e["name"] in fused[f"names_{side}"]), key=lambda e: e["ts"]
        )
        assert fused[f"events_{side}"] == len(mine)
        each = len(mine) // 3
        steps.append([sum(e["dur"] for e in mine[i : i + each]) for i in range(0, len(mine), each)])
    assert fused["change_ns"] == pytest.approx(1000 * (median(steps[1]) - median(steps[0])), abs=1)


def test_averages_are_of_both():
    rows = {(row["name"], row["device"]): row for row in as_json(EAGER, COMPILED)["averages"]}
    table = {
        (r["name"], r["device"]): r
        for r in json.loads(CliRunner().invoke(main, ["table", EAGER, "--json"]).stdout)
    }
    mul = rows["aten::mul", "CPU"]
    assert mul["calls_a"] == 1
    assert mul["calls_b"] == 0
    assert mul["self_device_b_us"] == 0
    assert mul["self_device_ratio"] == 0
    assert mul["self_cpu_a_us"] == pytest.approx(table["aten::mul", "CPU"]["self_cpu_us"] / 3)
    new = rows["triton_poi_fused__unsafe_view_gelu_mul_0", "CUDA"]
    assert new["self_device_ratio"] is None
    assert new["self_device_change_us"] == pytest.approx(new["self_device_b_us"])


def test_a_trace_with_itself():
    result = run(TRAIN, TRAIN)
    assert result.stdout.startswith("No difference: the same work, in the same time.\n")
    assert "What explains" not in result.stdout
    assert "train.json.gz" in result.stdout
    assert result.exit_code == 0


def test_the_answer_comes_first_then_what_explains_it_then_the_numbers():
    out = run(EAGER, COMPILED).stdout
    assert out.startswith("A step takes 253 µs instead of 241 µs (+5.1%)")
    places = [
        out.index(text) for text in ("A  mlp_eager", "What explains", "Per step (median)", "idle: dispatch")
    ]
    assert places == sorted(places)
    assert "within noise" in next(line for line in out.splitlines() if line.startswith("  step time"))
    assert "within noise" not in next(line for line in out.splitlines() if line.startswith("  GPU work"))


def test_markdown_has_the_same():
    out = run(EAGER, COMPILED, "--markdown", "--averages", "2").stdout
    assert out.startswith("**A step takes")
    assert "| launches | 7 | 6 | -1 | 0.86 |" in out
    assert out.count("`triton_poi_fused__unsafe_view_gelu_mul_0`") == 1


def test_names_are_told_apart_by_their_folders(tmp_path):
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.json.gz").write_bytes(Path(EAGER).read_bytes())
    found = as_json(str(tmp_path / "old" / "t.json.gz"), str(tmp_path / "new" / "t.json.gz"))
    assert (found["a"]["name"], found["b"]["name"]) == ("old/t.json.gz", "new/t.json.gz")


def test_standard_input_is_one_of_the_two():
    data = Path(EAGER).read_bytes()
    assert "standard input" in run("-", COMPILED, input=data).stdout
    assert run(EAGER, "-", input=data).stdout.startswith("No difference")
    result = run("-", "-", input=data)
    assert result.exit_code == 2
    assert "only one of the two" in result.stderr


def test_recordings_of_other_kinds(tmp_path):
    """zstd; and recordings without steps, without events: said, not guessed."""
    path = tmp_path / "t.json.zst"
    with path.open("wb") as file, zstd.writer(file) as packed:
        packed.write(gzip.decompress(Path(EAGER).read_bytes()))
    assert run(EAGER, str(path)).stdout.startswith("No difference")
    empty = tmp_path / "empty.json"
    empty.write_text('{"traceEvents": []}')
    found = as_json(EAGER, str(empty))
    assert not found["per_step"]
    assert found["notes"][0] == "only A has steps: the recordings are compared as wholes"
    assert found["b"]["steps"] == []
    assert found["busy_share"]["b"] is None


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize(
    "pair", [(EAGER, COMPILED), (TRAIN, EAGER), (str(PAIRS / "decode_eager.json.gz"), TRAIN)]
)
def test_lines_fit_the_terminal(pair, width, monkeypatch):
    from rich.cells import cell_len

    monkeypatch.setattr(terminal, "terminal_width", lambda: width)
    out = run(*pair, "--averages", "4", "--fail-over", "step=5%", "--fail-over", "cpu-op=1us").stdout
    assert max(map(cell_len, out.splitlines())) <= width
    for words in ("step time", "launches", "B  "):
        assert words in out


# Steps of one trace
def test_a_step_and_the_others():
    found = as_json(EAGER, "--step", "4")
    assert found["a"]["steps"] == [2, 3]
    assert found["b"]["steps"] == [4]
    assert found["a"]["name"] == "mlp_eager.json.gz, the other 2 steps"
    assert len([e for e in raw(EAGER, "user_annotation") if e["name"].startswith("ProfilerStep")]) == 3
    only = as_json(EAGER, "--step", "4", "--against", "2")
    assert only["a"]["steps"] == [2]
    assert only["a"]["name"] == "mlp_eager.json.gz, step 2"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((EAGER, "--step", "7"), "no step 7 in this trace (steps: 2 to 4)"),
        ((EAGER, "--step", "2", "--against", "9"), "no step 9"),
        ((EAGER, "--step", "2", "--against", "2"), "cannot be compared with itself"),
        ((EAGER, "--step", "x"), "not a valid integer"),
        ((EAGER, COMPILED, "--step", "2"), "--step takes one trace; got 2"),
        ((EAGER,), "no annotations A and B in turn: give two traces, or one with --step or --baseline"),
        ((), "got 0"),
        ((EAGER, COMPILED, TRAIN), "got 3"),
        ((EAGER, "--against", "2"), "--against needs --step"),
        ((EAGER, "--save"), "--save needs the name of a --baseline"),
        ((EAGER, "--step", "2", "--baseline", "main"), "use either --step or --baseline"),
        ((EAGER, "--baseline", "main", "--save", "--fail-over", "step=1%"), "--save compares nothing"),
        (("--list", EAGER), "--list takes no other arguments"),
        (("-", "--baseline", "main", "--save"), "not standard input"),
        ((EAGER, "--baseline", "../x y", "--json", "--markdown"), "either --json or --markdown"),
    ],
)
def test_wrong_usage_is_said(args, said):
    result = run(*args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("second", ["xyz.zst", "mlp_egaer.json.gz"])
def test_a_missing_file_is_one_line(second):
    result = run(EAGER, str(SAMPLES / second))
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "no such file or directory" in result.stderr
    assert ("did you mean" in result.stderr) == (second != "xyz.zst")


# Limits
@pytest.mark.parametrize(("text", "limit"), [
    ("step=5%", ("step", 0.05, True)), ("STEP = 5.5 %", ("step", 0.055, True)),
    ("device=50us", ("device", 50_000.0, False)), ("device=1.5ms", ("device", 1_500_000.0, False)),
    ("device=0", ("device", 0.0, False)), ("cpu-op=.5s", ("cpu-op", 5e8, False)),
    ("launches=0", ("launches", 0.0, False)), ("kernels=3", ("kernels", 3.0, False)),
    ("bytes=0", ("bytes", 0.0, False)), ("bytes=1.5 MB", ("bytes", 1_500_000.0, False)),
    ("bytes=1kib", ("bytes", 1024.0, False)), ("bytes=2%", ("bytes", 0.02, True)),
    ("launches=0%", ("launches", 0.0, True))
])  # fmt: skip
def test_limits_as_they_are_typed(text, limit):
    found = parse_limit(text)
    assert (found.name, found.most, found.relative) == pytest.approx(limit)


@pytest.mark.parametrize(("text", "said"), [
    ("", "expected METRIC=LIMIT"), ("step", "expected METRIC=LIMIT"), ("step=", "expected METRIC=LIMIT"),
    ("step=5", "share or a time? Write 5% or 5us"), ("step=-5%", "expected METRIC=LIMIT"),
    ("step=-1us", "expected METRIC=LIMIT"), ("step=nan%", "expected METRIC=LIMIT"),
    ("step=inf", "expected METRIC=LIMIT"), ("step=1e3%", "expected METRIC=LIMIT"),
    ("launches=2us", "expected METRIC=LIMIT"), ("launches=٣", "expected METRIC=LIMIT"),
    ("launchs=0", "did you mean launches?"), ("flops=0", f"expected one of {GATES}"),
    ("bytes=1us", "expected METRIC=LIMIT"), ("bytes=1KMB", "expected METRIC=LIMIT"),
    ("launches=1MB", "expected METRIC=LIMIT"), ("step=" + "9" * 100 + "%", "expected METRIC=LIMIT")
])  # fmt: skip
def test_bad_limits_are_said(text, said):
    result = run(EAGER, COMPILED, "--fail-over", text)
    assert result.exit_code == 2
    assert said in result.stderr


def test_help_names_the_metrics():
    assert ", ".join(METRICS) == GATES
    assert " ".join(GATES.split()) in " ".join(run("--help").stdout.split())


def test_a_limit_that_holds_and_one_that_does_not():
    result = run(
        COMPILED, EAGER, "--fail-over", "launches=0", "--fail-over", "device=2%", "--fail-over", "kernels=1"
    )
    assert result.exit_code == 3
    first, second = result.stderr.splitlines()
    assert first == "tracetui: launches +1, over its limit of 0: 7 instead of 6"
    assert second.startswith("tracetui: device +4.")
    assert "over its limit of +2%: 231 µs instead of 221 µs" in second
    rows = [line.split() for line in result.stdout.split("Limits\n")[1].splitlines()[:3]]
    assert [row[0] for row in rows] == ["launches", "device", "kernels"]
    assert [row[4].rstrip(":") for row in rows] == ["over", "over", "within"]
    assert "wall time" not in result.stdout
    assert run(EAGER, COMPILED, "--fail-over", "launches=0", "--fail-over", "device=0").exit_code == 0


def test_noise_is_not_over_a_limit_unless_strict():
    args = (EAGER, COMPILED, "--fail-over", "step=2%")
    result = run(*args)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "not counted: the machine, noise" in result.stdout
    assert "Step is a wall time" in result.stdout
    strict = run(*args, "--strict")
    assert strict.exit_code == 3
    assert strict.stderr == "tracetui: step +5.1%, over its limit of +2%: 253 µs instead of 241 µs\n"


def test_what_the_machine_explains_is_taken_out_of_wall_times():
    """The machine was slower by two thirds in the second; the change is one copy and a wait."""
    base = needed(COLLECTION / "pairs" / "train_base.json.gz")
    item = str(PAIRS / "train_item.json.gz")
    found = as_json(
        str(base), item, "--fail-over", "step=5%", "--fail-over", "cpu-op=5%", "--fail-over", "launches=0"
    )
    step, ops, launches = found["limits"]
    assert step["change"] > 0.5 * found["step_ns"]["a"]
    assert not step["over"]
    assert not ops["over"]
    assert launches == {
        "metric": "launches", "limit": 0.0, "relative": False, "change": 1.0, "machine": 0.0,
        "counted": 1.0, "over": True, "wall_time": False,
    }  # fmt: skip
    assert [one["wall_time"] for one in (step, ops)] == [True, True]


def test_what_is_not_known_is_over_its_limit(tmp_path):
    from tracetui.compare.model import Metric
    from tracetui.views.limits import Limit, Outcome, failure

    assert Metric(None, None, True).change is None
    told = failure(Outcome(Limit("device", 0.05, True), None, None, 0.0, None, True))
    assert told == "device is not known, so it is not within its limit of +5%"


# Baselines
def test_a_baseline_is_kept_and_compared_with(state, tmp_path):
    assert run("--list").stdout.startswith("no baselines in ")
    kept = run(EAGER, "--baseline", "main", "--save")
    assert kept.exit_code == 0, kept.stderr
    assert kept.stdout.startswith("mlp_eager.json.gz is the baseline main now")
    folder = state / "baselines" / "main"
    files = sorted(os.listdir(folder))
    assert len(files) == 3
    assert files[0] == "baseline.json"
    trace = next(folder / name for name in files if name.endswith(".json.gz"))
    assert trace.read_bytes() == Path(EAGER).read_bytes()
    assert json.loads(trace.with_name(trace.name.replace(".json.gz", ".meta.json")).read_text())["torch"]

    found = as_json(COMPILED, "--baseline", "main")
    assert found["a"]["name"] == "baseline main: mlp_eager.json.gz"
    assert found["b"]["name"] == "mlp_compile.json.gz"
    assert found["launches"]["change"] == -1
    listed = run("--list").stdout
    assert "main" in listed
    assert "mlp_eager.json.gz" in listed
    assert json.loads(run("--list", "--json").stdout)[0]["baseline"] == "main"


@pytest.mark.parametrize(("size", "kept"), [(LARGEST_META, True), (LARGEST_META + 1, False)])
def test_what_a_capture_says_of_itself_is_kept_unless_it_is_huge(state, tmp_path, size, kept):
    trace = tmp_path / "t.json.gz"
    trace.write_bytes(Path(EAGER).read_bytes())
    meta_file(trace).write_text("{}" + " " * (size - 2))
    assert run(str(trace), "--baseline", "main", "--save").exit_code == 0
    files = os.listdir(state / "baselines" / "main")
    assert any(name.endswith(".meta.json") for name in files) is kept


def test_a_baseline_takes_the_place_of_the_one_before(state):
    for path in (EAGER, COMPILED):
        assert run(path, "--baseline", "main", "--save").exit_code == 0
    assert len(os.listdir(state / "baselines" / "main")) == 3
    assert run(COMPILED, "--baseline", "main").stdout.startswith("No difference")


def test_a_folder_of_ones_own(tmp_path, monkeypatch):
    """With other files in it, which stay."""
    monkeypatch.chdir(tmp_path)
    Path("base").mkdir()
    Path("base/notes.txt").write_text("mine")
    assert run(EAGER, "--baseline", "./base", "--save").exit_code == 0
    assert run(COMPILED, "--baseline", "./base", "--save").exit_code == 0
    assert len(os.listdir("base")) == 4
    assert as_json(COMPILED, "--baseline", "./base")["a"]["name"] == "baseline ./base: mlp_compile.json.gz"
    assert not Path(os.environ["TRACETUI_STATE"]).exists()


def test_a_folder_with_a_single_capture_is_one(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "t.json.gz").write_bytes(Path(EAGER).read_bytes())
    (tmp_path / "one" / "t.meta.json").write_text("{}")
    assert as_json(COMPILED, "--baseline", str(tmp_path / "one"))["a"]["name"].endswith(": t.json.gz")
    (tmp_path / "one" / "u.json.gz").write_bytes(Path(EAGER).read_bytes())
    result = run(COMPILED, "--baseline", str(tmp_path / "one"))
    assert result.exit_code == 1
    assert "has 2 traces and does not say which is the baseline" in result.stderr


@pytest.mark.parametrize(("name", "code", "said"), [
    ("nothing", 1, "no baseline 'nothing': save one with --save"),
    ("mian", 1, "no baseline 'mian'; did you mean main?"), ("", 2, "a baseline's name has letters"),
    ("-x", 2, "a baseline's name has letters"), ("..", 1, "baseline"),
    ("a b", 2, "a baseline's name has letters"), ("a" * 65, 2, "a baseline's name has letters"),
    ("ä", 2, "a baseline's name has letters"), ("./none", 1, "no baseline './none'"),
    (EAGER, 1, "no baseline")
])  # fmt: skip
def test_names_of_baselines(name, code, said, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run(EAGER, "--baseline", "main", "--save").exit_code == 0
    result = run(EAGER, f"--baseline={name}")
    assert result.exit_code == code
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_broken_trace_is_not_kept(state, tmp_path):
    path = tmp_path / "t.json"
    path.write_text("no trace")
    result = run(str(path), "--baseline", "main", "--save")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert not state.exists()


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="the owner may write anywhere")
def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    result = run(EAGER, "--baseline", str(tmp_path / "locked" / "base"), "--save")
    assert result.exit_code == 1
    assert "permission denied" in result.stderr


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    result = run(EAGER, "--baseline", str(tmp_path / "file"), "--save")
    assert result.exit_code == 1
    assert "file exists" in result.stderr


def test_tab_completes_the_names_of_baselines():
    from click.shell_completion import ShellComplete

    def completed(typed: str) -> list[str]:
        found = ShellComplete(main, {}, "tracetui", "_TRACETUI_COMPLETE")
        return [item.value for item in found.get_completions(["compare", "--baseline"], typed)]

    for name in ("main", "may"):
        assert run(EAGER, "--baseline", name, "--save").exit_code == 0
    assert completed("ma") == ["main", "may"]
    assert completed("mai") == ["main"]
    assert completed("./m") == ["./m"]


# Two traces on the command line
@pytest.mark.parametrize("words", [("open", EAGER, COMPILED), (EAGER, COMPILED)])
def test_open_prints_the_comparison_without_a_terminal(words):
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 0
    assert result.stdout == run(EAGER, COMPILED).stdout


def test_open_takes_no_folder_with_another_trace(tmp_path):
    for words in ((EAGER, str(tmp_path)), (str(tmp_path), EAGER)):
        result = CliRunner().invoke(main, ["open", *words])
        assert result.exit_code == 1
        assert "is a folder: two traces are compared" in result.stderr
    result = CliRunner().invoke(main, ["open", "-", "-"])
    assert result.exit_code == 2
    result = CliRunner().invoke(main, ["open", EAGER, str(tmp_path / "none.json")])
    assert result.exit_code == 1
    assert "no such file" in result.stderr
