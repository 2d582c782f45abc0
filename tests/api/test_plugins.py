"""Plugins: what a package of somebody else's adds, and that a broken one harms nothing but itself."""

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner
from tests.conftest import SAMPLES
from tests.kineto import cpu, run, step

import tracetui as tt
from tracetui.analysis.names.communication import is_communication
from tracetui.analysis.names.kernel_names import decode
from tracetui.cli.main import main
from tracetui.core import plugins
from tracetui.rules import RULES
from tracetui.trace import load, result_cache, saved
from tracetui.views.registry import OURS

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugin"
Install = Callable[..., None]
RULE = """
    from tracetui.rules.model import Finding
    from tracetui.trace.slices import Slices
    def rule(part):
        at = Slices(part.trace, [0])
        title, text = "\\x1b[31mred", "te\\u202ext"
        yield Finding("x", "high", title, text, "try", (0,), {"share": 1}, "GPU\\n0", {}, at)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package `acme` with this code, and these entry points by kind: "name = object"."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.delenv("TRACETUI_NO_PLUGINS")
    monkeypatch.syspath_prepend(str(folder))

    def make(code: str, **points: str) -> None:
        info = folder / "acme-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.2\n")
        lines = [f"[tracetui.{kind}]\n{point}\n" for kind, point in points.items()]
        (info / "entry_points.txt").write_text("".join(lines))
        (folder / "acme_plugin.py").write_text(dedent(code))
        plugins.forget()

    sys.modules.pop("acme_plugin", None)
    plugins.forget()
    yield make
    sys.modules.pop("acme_plugin", None)
    monkeypatch.undo()
    plugins.forget()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.json"
    events = [step(1, 0, 200), cpu("aten::mm", 10, 20), *run(50, 100, 1, name="acme_gemm_bf16_64x64")]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def command(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


# The example
@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip has installed it."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("plugin")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--target", str(folder), str(EXAMPLE)], check=True, timeout=300)
    return folder


ACME = """#acme 1
user_annotation,ProfilerStep#1,1,1,0,1000
user_annotation,acme: checkpoint,1,1,100,300
cpu_op,aten::mm,1,1,500,200
broken
kernel,acme_gemm_bf16_128x64_k,0,7,650,100
user_annotation,\x1b[31mred,1,1,800,5
"""


def test_the_example(example, tmp_path, monkeypatch):
    monkeypatch.delenv("TRACETUI_NO_PLUGINS")
    monkeypatch.setenv("PYTHONPATH", str(example))
    path = tmp_path / "steps.acme"
    path.write_bytes(gzip.compress(ACME.encode()))

    def said(*words: str) -> str:
        ran = subprocess.run([sys.executable, "-m", "tracetui", *words], capture_output=True, timeout=120)
        assert (ran.returncode, ran.stderr) == (0, b"")
        return ran.stdout.decode()

    adds = "format acme_csv, kernel family acme, rule acme_checkpoint, view acme_checkpoints"
    assert said("--version").splitlines()[1:] == [f"plugin tracetui-acme 0.1: {adds}"]
    found = json.loads(said("findings", str(path), "--json"))["findings"]
    (finding,) = (one for one in found if one["rule"] == "acme_checkpoint")
    assert finding["numbers"] == {"share": 0.3, "time_ns": 300000.0}
    assert finding["evidence"][0]["name"] == "acme: checkpoint"
    assert "Checkpoints take 30% of the time" in said("summary", str(path))
    assert "acme gemm bf16 128x64" in said("summary", str(path))
    assert "acme_checkpoints  Print when the model was saved." in said("view")
    rows = [{"start_ns": 100000, "duration_ns": 300000}]
    assert json.loads(said("view", "acme_checkpoints", str(path), "--json")) == {"checkpoints": rows}
    assert said("view", "acme_checkpoints", str(path)) == "        100,000 ns         300,000 ns\n"
    assert "| 100000 | 300000 |" in said("view", "acme_checkpoints", str(path), "--markdown")
    api = f"import tracetui as tt; print(tt.load({str(path)!r}).view('acme_checkpoints').rows)"
    assert subprocess.run([sys.executable, "-c", api], capture_output=True, text=True).stdout == f"{rows}\n"
    checked = subprocess.run([sys.executable, "-m", "tracetui", "check", str(path)], capture_output=True)
    assert checked.returncode == 1
    assert b"1  an event that cannot be read" in checked.stdout
    red = json.loads(said("table", str(path), "--json"))
    assert "␛[31mred" in {row["name"] for row in red}


def test_without_plugins_nothing_is_imported_to_find_them(monkeypatch):
    monkeypatch.delenv("TRACETUI_NO_PLUGINS")
    code = (
        "import sys; from tracetui.cli.main import main\n"
        f"try: main(['findings', {str(SAMPLES / 'linear.json.gz')!r}])\n"
        "except SystemExit: print('importlib.metadata' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.stdout.splitlines()[-1] == "False", ran.stderr


def test_they_can_be_left_out(install, trace, monkeypatch):
    install(RULE, rules="loud = acme_plugin:rule")
    assert "loud" in command("findings", trace, "--json")[1]
    monkeypatch.setenv("TRACETUI_NO_PLUGINS", "1")
    plugins.forget()
    assert "loud" not in command("findings", trace, "--json")[1]


# Rules
def test_what_a_rule_says_is_safe(install, trace):
    install(RULE, rules="loud = acme_plugin:rule")
    code, out, err = command("findings", trace, "--json")
    found = next(one for one in json.loads(out)["findings"] if one["rule"] == "loud")
    assert (code, err) == (0, "")
    assert (found["title"], found["text"]) == ("␛[31mred", "te\ufffdxt")
    assert "\x1b" not in command("findings", trace)[1]


@pytest.mark.parametrize(("code", "why"), [
    ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    ("raise SystemExit(3)", "SystemExit: 3"), ("rule = 3", "is not a function of a part of a trace"),
    ("other = 3", "AttributeError: module 'acme_plugin' has no attribute 'rule'"),
    ("def rule(part): raise ValueError('a\\nb\\x1b[0m')", "ValueError: a b␛[0m"),
    ("def rule(part): yield 3", "AttributeError: 'int' object has no attribute 'severity'"),
    (RULE.replace('"high"', '"loud"'), "ValueError: severity 'loud': expected one of high, medium"),
    (RULE.replace("(0,)", "()"), "ValueError: evidence must be slices of the trace, at least one"),
    (RULE.replace("(0,)", "(99,)"), "ValueError: evidence must be slices of the trace")
])  # fmt: skip
def test_a_broken_rule_costs_one_line(install, trace, code, why):
    before = command("findings", trace)[1]
    install(code, rules="loud = acme_plugin:rule")
    status, out, err = command("findings", trace)
    assert (status, out) == (0, before)
    assert re.match(f"tracetui: note: plugin (left out|failed): rule loud of acme 1.2: {re.escape(why)}", err)
    assert err.count("\n") == 1
    if "def rule" not in code:
        assert "plugin acme 1.2: rule loud" in command("--version")[1]


def test_a_rule_cannot_take_the_place_of_ours(install, trace):
    name = next(iter(RULES))
    install(RULE, rules=f"{name} = acme_plugin:rule")
    _, out, err = command("findings", trace)
    assert "red" not in out
    assert "a rule of this name exists" in err


# Kernels
def test_a_family_of_kernels(install):
    code = """
        from tracetui.analysis.names.model import KernelName
        def family(name):
            if name.startswith("boom"):
                raise ValueError(name)
            if name.startswith("odd"):
                return name
            if name.startswith("acme_"):
                return KernelName(name[:3], "acme", "a\\x1bb" + "c" * 99, "gemm", notes=("n\\n",))
            if name.startswith("swap_"):
                return KernelName(name, "acme", "swap", "collective")
    """
    ours = decode("nvjet_sm90_tst_64x64_64x13_2x1_v_bz_NNT")
    install(code, kernels="acme = acme_plugin:family")
    found = decode("acme_gemm_1")
    assert (found.name, found.family, found.kind, found.notes) == ("acme_gemm_1", "acme", "gemm", ("n␊",))
    assert found.short.startswith("a␛bc")
    assert len(found.short) == 40
    assert decode("nvjet_sm90_tst_64x64_64x13_2x1_v_bz_NNT") == ours
    assert is_communication("swap_halos")
    assert not plugins.problems()
    assert decode("boom_kernel").family == "other"
    assert decode("odd_kernel").family == "other"
    (line,) = plugins.problems()  # the first of each plugin
    assert line == "plugin failed: kernel family acme of acme 1.2: ValueError: boom_kernel"


# Formats


FORMAT = """
    def sniff(head, name): return head.startswith(b"ACME")
    def read(source, report, workers=None, *, so_far=None):
        {}
"""


@pytest.mark.parametrize(("body", "said"), [
    ("raise ZeroDivisionError('a\\x1b')", "cannot be read by the format acme of acme 1.2: a␛"),
    ("from tracetui.core.errors import TraceError; raise TraceError('is\\x07 empty')", "is␇ empty"),
    ("return None", "cannot be read by the format acme of acme 1.2: "),
    ("raise OSError(5, 'Input/output error')", "input/output error")
])  # fmt: skip
def test_a_format_that_fails_is_an_error_of_one_line(install, tmp_path, body, said):
    install(FORMAT.format(body), formats="acme = acme_plugin")
    path = tmp_path / "x"
    path.write_text("ACME")
    with pytest.raises(tt.TraceError, match=re.escape(f"x: {said}")) as error:
        load(path)
    assert str(error.value).isprintable()


def test_a_format_that_cannot_sniff_leaves_files_to_the_others(install, trace, tmp_path):
    install("def sniff(head, name): return 1 / 0", formats="acme = acme_plugin")
    assert len(tt.load(trace)) == 4
    assert not plugins.problems(), "it is not asked about what is certainly Chrome's"
    other = tmp_path / "x"
    other.write_text("no trace")
    with pytest.raises(tt.TraceError, match="is not a trace"), pytest.warns(RuntimeWarning):
        tt.load(other)
    assert "ZeroDivisionError" in plugins.problems()[0]


# Views


VIEW = """
    from tracetui.views.answer import Answer
    from tracetui.views.registry import View
    def make(part):
        {}
        data = {{"a": ["\\x1b", 1]}}
        return Answer("x", lambda: data, lambda: "# \\x07\\n", lambda width: [[("\\x1b", "no")]])
    view = View("x", "A view\\nof mine", make)
"""


def test_what_a_view_says_is_safe(install, trace):
    install(VIEW.format("pass"), views="acme = acme_plugin:view")
    assert "acme        A view␊of mine" in command("view")[1]
    assert command("view", "acme", trace, "--json")[1] == '{\n  "a": [\n    "␛",\n    1\n  ]\n}\n'
    assert command("view", "acme", trace)[1] == "␛\n"
    assert command("view", "acme", trace, "--markdown")[1] == "# ␇\n"
    assert tt.load(trace).view("acme").rows == [{"a": ["␛", 1]}]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("code", "why"), [
    ("raise KeyError('a')", "KeyError: 'a'"), ("return 3", "AttributeError: 'int' object has no attribute")
])  # fmt: skip
def test_a_view_that_fails_is_an_error_of_one_line(install, trace, code, why):
    install(VIEW.format(code), views="acme = acme_plugin:view")
    status, out, err = command("view", "acme", trace)
    assert (status, out) == (1, "")
    assert err.splitlines()[0].startswith(f"tracetui: view acme of acme 1.2 failed: {why}")
    with pytest.raises(tt.TraceError, match=re.escape(why)):
        tt.load(trace).view("acme")


@pytest.mark.parametrize("point", ["acme = acme_plugin:make", "gaps = acme_plugin:view"])
def test_a_view_that_is_none_or_takes_our_name(install, trace, point):
    before = command("view", "gaps", trace)
    install(VIEW.format("pass"), views=point)
    assert list(tt.views) == list(OURS)
    assert command("view", "gaps", trace)[:2] == before[:2]
    assert len(plugins.problems()) == 1


# What is cached
def test_what_plugins_say_is_not_cached(install, trace, cache, monkeypatch):
    monkeypatch.setattr("tracetui.formats.source._SETTLED", -(10**12))
    source = tt.load(trace).columns.reader.source
    assert result_cache.store_result(source, "x", "y", str)
    assert result_cache.load_result(source, "x", str) == "y"
    install(RULE, rules="loud = acme_plugin:rule")
    assert result_cache.load_result(source, "x", str) is None
    assert not result_cache.store_result(source, "x", "y", str)


def test_what_a_plugin_reads_is_not_cached(example, tmp_path, cache, monkeypatch):
    monkeypatch.delenv("TRACETUI_NO_PLUGINS")
    monkeypatch.syspath_prepend(str(example))
    monkeypatch.setattr("tracetui.formats.source._SETTLED", -(10**12))
    plugins.forget()
    path = tmp_path / "x.acme"
    path.write_text(ACME)
    trace = tt.load(path)
    assert not saved.save(trace.columns)
    assert trace.columns.event(0)["ph"] == "X"
    monkeypatch.undo()
    plugins.forget()
