"""Random keys, mouse events and sizes for a few seconds; `benchmarks/monkey.py` does it for hours."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
amounts = pytest.mark.parametrize("events", [60, pytest.param(1000, marks=pytest.mark.long)])


@pytest.fixture(scope="module")
def monkey() -> Iterator[ModuleType]:
    """The script, as a module, which finds its neighbours as if it had been started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("monkey")


def run(*arguments: str, before: str = "", **look: str) -> subprocess.CompletedProcess[str]:
    """The script in a process of its own, which becomes a terminal; `before`: what is done to the app."""
    pytest.importorskip("pty", reason="needs a pseudo-terminal")
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); import monkey; {before}"
    code += "\nsys.exit(monkey.main(sys.argv[1:]))"
    environment = {**os.environ, "ESCDELAY": "5", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    environment |= look
    return subprocess.run(
        [sys.executable, "-c", code, "--here", "--cold", *arguments], capture_output=True, text=True,
        timeout=300, env=environment
    )  # fmt: skip


@amounts
@pytest.mark.parametrize(("names", "seed", "look"), [
    (["sample_traces/attention_naive"], 5, {"COLORTERM": ""}),
    pytest.param(["tests/data/llama_train"], 1, {}, marks=pytest.mark.long),
    pytest.param(["tests/data/mlp_compile"], 2, {"NO_COLOR": "1"}, marks=pytest.mark.long),
    (["tests/data/pairs/decode_eager", "tests/data/pairs/train_item"], 8, {"TERM": "xterm", "COLORTERM": ""})
])  # fmt: skip
def test_after_random_keys_clicks_and_sizes_the_terminal_shows_what_it_should(names, seed, look, events):
    traces = ",".join(str(ROOT / f"{name}.json.gz") for name in names)
    ran = run(traces, "--events", str(events), "--seed", str(seed), **look)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


SHEETS = (
    "question_mark", "ctrl+p", "I", "C", "j", "T", "l", "e", "L", "ctrl+o", "c", "slash", "colon", "m", "F"
)  # fmt: skip
SIZES = ((121, 36), (121, 37), (80, 24), (20, 5), (300, 80), (120, 36))


@pytest.mark.parametrize("sizes", [SIZES[1::2], pytest.param(SIZES, marks=pytest.mark.long)], ids=len)
def test_everything_that_opens_stays_open_at_any_size(sizes):
    acts = [
        act for key in SHEETS for act in (
            f"Act('keys', ({key!r},))", *(f"Act('resize', size={size})" for size in sizes),
            "Act('keys', ('escape', 'escape'))"
        )
    ]  # fmt: skip
    before = f"from monkey import Act; monkey.acts = lambda seed: iter([{', '.join(acts)}])"
    sample = str(ROOT / "sample_traces" / "linear.json.gz")
    ran = run(sample, "--events", str(len(SHEETS) * (len(sizes) + 3)), before=before)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


@pytest.mark.parametrize(("broken", "told"), [
    ("screens.trace.TraceScreen.action_clear = lambda self: 1 / 0", "division by zero"),
    ("textual_private.SentLines.only_new = lambda self, update, width: None", "shown")
])  # fmt: skip
def test_the_monkey_tells_of_what_fails(broken, told):
    before = "import monkey_terminal; from tracetui.tui import screens, textual_private"
    before += f"; import tracetui.tui.screens.trace; monkey_terminal.LONGEST = 1; {broken}"
    ran = run(str(ROOT / "sample_traces" / "linear.json.gz"), "--events", "15", "--seed", "3", before=before)
    assert ran.returncode == 1
    assert told in ran.stdout


def test_the_same_seed_does_the_same(monkey):
    def first(seed: int) -> list[str]:
        acts = monkey.acts(seed)
        return [str(next(acts)) for _ in range(300)]

    assert first(4) == first(4)
    assert first(4) != first(5)
    assert {"keys", "click", "drag", "wheel", "resize", "move"} <= {act.split()[0] for act in first(4)}


def test_memory_is_held_only_if_it_does_not_go_on_growing(monkey):
    def held(*mib: int) -> bool:
        return bool(monkey.growth([monkey.Sample(n * 1000, m << 20, 0) for n, m in enumerate(mib)]).held)

    assert held(100, 104, 106, 106, 107)
    assert held(100, 120, 106, 106, 106)  # a screen that came and went
    assert not held(100, 104, 108, 110, 111)
    assert not held(100, 102, 104, 106, 108), "twice as much, and it is over"


def test_all_is_done_once_before_memory_is_measured(monkey):
    memory = importlib.import_module("monkey_memory")
    done = list(memory.everything())
    assert {act.size for act in done if act.kind == "resize"} == set(memory.SIZES)
    assert {key for act in done for key in act.keys} >= {*memory.KEYS, *memory.MORE_KEYS, *memory.OPENERS}
    random = monkey.acts(1)
    kinds = {next(random).kind for _ in range(500)}
    assert {act.kind for act in done} >= kinds - {"pause"}
