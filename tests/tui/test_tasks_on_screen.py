"""What a person does with a trace, in the keys that it takes: at most six, a typed word counts as one.

Each task begins with a bundled trace as it opens, or with an event selected, and ends with what is to be read
on the screen; what that has to be is worked out from the file itself.
"""

import csv
import gzip
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from textual.pilot import Pilot

from tracetui.tui.app import TracetuiApp
from tracetui.tui.screens.trace import TraceScreen

from .conftest import screen_of, until, visit

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
MOST = 6
UNITS = {"ns": 1e-3, "µs": 1.0, "ms": 1e3, "s": 1e6}
AMOUNT = r"([\d,]+(?:\.\d+)?) (ns|µs|ms|s)\b"
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
Event = dict[str, Any]


class Word(str):
    """Typed as a whole: one press in the count."""


class File:
    """A trace as it stands in the file; times in microseconds."""

    def __init__(self, path: Path) -> None:
        with gzip.open(path) as file:
            self.all: list[Event] = json.load(file)["traceEvents"]
        self.slices = [e for e in self.all if e.get("ph") == "X"]
        self.work = sorted(self.of(*DEVICE), key=lambda e: e["ts"])
        self.ops = self.of("cpu_op")
        self.launches = {
            e["args"]["correlation"]: e for e in self.of("cuda_runtime", "cuda_driver")
            if e["args"].get("correlation")
        }  # fmt: skip

    def of(self, *categories: str) -> list[Event]:
        return [e for e in self.slices if e.get("cat") in categories]

    def step(self, number: int) -> Event:
        return next(
            e for e in self.slices if e["name"] == f"ProfilerStep#{number}" and e["cat"] == "user_annotation"
        )

    def around(self, event: Event) -> list[Event]:
        """The ops around an event of a thread, the innermost last."""
        found = [o for o in self.ops if o["tid"] == event["tid"] and o is not event and within(event, o)]
        return sorted(found, key=lambda o: -o["dur"])

    def kernels_of(self, op: Event) -> list[Event]:
        """What was launched within an op."""
        return [
            w for w in self.work if (
                launch := self.launches.get(w["args"]["correlation"])
            ) is not None and launch["tid"] == op["tid"] and within(launch, op)
        ]  # fmt: skip


def within(inner: Event, outer: Event) -> bool:
    return bool(
        outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-3
    )


@lru_cache
def file_of(name: str) -> File:
    return File(SAMPLES / f"{name}.json.gz")


class Person:
    """Presses keys and reads."""

    def __init__(self, app: TracetuiApp, pilot: Pilot[None], file: File) -> None:
        self.app, self.pilot, self.file = app, pilot, file
        self.presses = 0

    def select(self, event: Event) -> None:
        """An event that is selected to begin with."""
        trace = screen_of(self.app).trace
        first = self.file.step(min(self.steps()))
        there = int(np.flatnonzero(trace.name == trace.names.index(first["name"]))[0])
        zero = first["ts"] * 1000 - int(trace.start[there])
        same = np.flatnonzero(trace.name == trace.names.index(event["name"]))
        off = np.abs(trace.start[same] - (event["ts"] * 1000 - zero))
        found = int(same[int(np.argmin(off))])
        assert off.min() < 10
        screen_of(self.app).timeline.navigator.select(found)

    def steps(self) -> list[int]:
        names = {e["name"] for e in self.file.slices if e["name"].startswith("ProfilerStep#")}
        return [int(n.split("#")[1]) for n in names]

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.presses += 1
            await self.pilot.press(*(key if isinstance(key, Word) else [key]))
            await until(self.pilot, self.sees_the_table)
        assert self.presses <= MOST

    def sees_the_table(self) -> bool:
        """Whether the open pane, if any, has its table: a person waits for that before the next key."""
        screen = self.app.screen
        pane = screen.area.open if isinstance(screen, TraceScreen) else None
        return pane is None or pane.table is not None

    @property
    def screen(self) -> str:
        """All the text that is drawn."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def reads(self, pattern: str) -> re.Match[str]:
        """Wait until it stands on the screen."""
        found: list[re.Match[str]] = []

        def there() -> bool:
            found[:] = re.finditer(pattern, self.screen)
            return bool(found)

        try:
            await until(self.pilot, there)
        except AssertionError:
            raise AssertionError(f"{pattern!r} is not on the screen:\n{self.screen}") from None
        return found[0]

    async def reads_time(self, before: str, after: str = "") -> float:
        """A length of time in microseconds that stands between two patterns on one line."""
        found = await self.reads(f"{before}{AMOUNT}{after}")
        return us(found[found.re.groups - 1], found[found.re.groups])


def us(number: str, unit: str) -> float:
    return float(number.replace(",", "")) * UNITS[unit]


def in_table(line: str, unit: str = "µs") -> list[float]:
    """All lengths of time in a row of a table, in µs; `unit`: what the titles say."""
    return [us(found, unit) for found in re.findall(r"([\d,]+\.\d{3})(?!\d|%)", line)]


@asynccontextmanager
async def person(name: str, select: Callable[[File], Event] | None = None) -> AsyncIterator[Person]:
    """A person before a bundled trace."""
    async with visit(SAMPLES / f"{name}.json.gz", size=(120, 36)) as (app, pilot, _):
        who = Person(app, pilot, file_of(name))
        await who.reads("wasd move")
        if select is not None:
            who.select(select(who.file))
            await who.reads(r"(?m)^.*  at .*  for ")
        yield who


def longest_kernel(file: File) -> Event:
    return max(file.of("kernel"), key=lambda e: float(e["dur"]))


def an_op(file: File) -> Event:
    """An op with ops within it and kernels."""
    return next(o for o in file.ops if o["name"] == "aten::linear" and len(file.kernels_of(o)) >= 1)


def longest_gap(file: File) -> tuple[float, float, Event]:
    """(from, length, the event that ended it)"""
    best, reached = (0.0, 0.0, file.work[0]), file.work[0]["ts"]
    for event in file.work:
        if event["ts"] - reached > best[1]:
            best = (reached, event["ts"] - reached, event)
        reached = max(reached, event["ts"] + event["dur"])
    return best


def row(screen: str, pattern: str) -> str:
    """The first line that matches."""
    return next((line for line in screen.split("\n") if re.search(pattern, line)), "")


async def test_the_longest_gap_and_what_caused_it():
    async with person("train") as p:
        start, length, ended = longest_gap(p.file)
        await p.press("g")
        assert await p.reads_time("idle for ") == pytest.approx(length, rel=1e-4)
        # The launch came late, and no op ran meanwhile: that is "host".
        assert p.file.launches[ended["args"]["correlation"]]["ts"] - start > length / 2
        covered = np.zeros(int(length) + 1, dtype=bool)
        for op in p.file.ops:
            low, high = int(op["ts"] - start), int(op["ts"] + op["dur"] - start)
            covered[max(0, low) : max(0, high)] = True
        assert covered.mean() < 0.5
        await p.reads("host: the CPU was outside any op")


async def test_which_op_launched_this_kernel():
    async with person("train", longest_kernel) as p:
        op = p.file.around(p.file.launches[longest_kernel(p.file)["args"]["correlation"]])[-1]
        await p.press("2")
        await p.reads(rf"(?m)^ op +↵ {re.escape(op['name'])}\s")


async def test_how_much_of_a_step_is_communication():
    async with person("train_ddp") as p:
        step = p.file.step(3)
        nccl = [w for w in p.file.work if "nccl" in w["name"].lower()]
        known = [w for w in nccl if w["args"]["correlation"] in p.file.launches]
        launched = [w for w in known if within(launch_of(p.file, w), step)]
        assert len(launched) > 3
        total, reached = 0.0, 0.0
        for low, high in sorted((w["ts"], ends(w)) for w in launched):
            total += max(0.0, high - max(low, reached))
            reached = max(reached, high)
        await p.press("7")
        await p.reads(r"Step ▲.*Comm\.")
        await p.reads("step 3 ")
        title, line = row(p.screen, r"Step ▲"), row(p.screen, "step 3 ")
        right = title.index("Comm.") + len("Comm.")
        right += len(" µs")
        assert in_table(line[right - 12 : right])[0] == pytest.approx(total, rel=1e-3)


def allocated(file: File, time: float) -> int:
    """Bytes allocated on the GPU at a time: what the last record before it says."""
    records = [e for e in file.all if e["name"] == "[memory]" and e["args"]["Device Type"] == 1]
    return int(max((e for e in records if e["ts"] <= time), key=lambda e: e["ts"])["args"]["Total Allocated"])


async def test_how_much_memory_was_allocated_at_a_moment():
    async with person("train_memory", longest_kernel) as p:
        await p.press("2")
        found = await p.reads(r"memory, GPU 0 +([\d.]+) MiB allocated, ([\d.]+) MiB reserved")
        assert float(found[1]) == pytest.approx(
            allocated(p.file, longest_kernel(p.file)["ts"]) / 2**20, rel=5e-3
        )


async def test_which_op_keeps_most_memory():
    async with person("train_memory") as p:
        sizes: dict[str, int] = {}
        for record in p.file.all:
            if record["name"] == "[memory]" and record["args"]["Device Type"] == 1:
                around = [o for o in p.file.ops if o["ts"] <= record["ts"] <= ends(o)]
                name = max(around, key=lambda o: o["ts"])["name"] if around else ""
                sizes[name] = sizes.get(name, 0) + record["args"]["Bytes"]
        await p.reads("▼Self GPU")
        await p.reads("Self GPU mem")
        await p.press(*["greater_than_sign"] * 4)
        await p.reads("▼Self GPU mem")
        lines = p.screen.split("\n")
        first = lines[next(n for n, line in enumerate(lines) if "▼Self GPU mem" in line) + 1]
        assert first.split()[0].lstrip("▌▸") in ("", max(sizes, key=lambda n: sizes[n]))
        assert f" {sizes[max(sizes, key=lambda n: sizes[n])] / 2**20:.1f} MiB " in first


async def test_compare_two_steps():
    async with person("train") as p:
        await p.press("7")
        for number in (2, 3):
            await p.reads(f"step {number} ")
            line = row(p.screen, f"step {number} ")
            step = p.file.step(number)
            kernels = [w for w in p.file.of("kernel") if within(launch_of(p.file, w), step)]
            assert in_table(line, "ms")[0] == pytest.approx(step["dur"], rel=1e-2)
            assert f" {len(kernels):,} " in line


def launch_of(file: File, work: Event) -> Event:
    return file.launches[work["args"]["correlation"]]


async def test_read_a_kernels_grid():
    async with person("train", longest_kernel) as p:
        await p.press("2", "v")
        args = longest_kernel(p.file)["args"]
        grid, block = (" × ".join(map(str, args[key])) for key in ("grid", "block"))
        await p.reads(rf"grid +{grid} blocks of {block} threads")


async def test_the_self_time_of_an_op():
    async with person("train", an_op) as p:
        op = an_op(p.file)
        inside = [o for o in p.file.slices if o["tid"] == op["tid"] and o is not op and within(o, op)]
        children = [o for o in inside if not any(within(o, a) for a in inside if a is not o)]
        own = op["dur"] - sum(o["dur"] for o in children)
        assert 0 < own < op["dur"]
        assert await p.reads_time("aten::linear.*  self ") == pytest.approx(own, rel=2e-3)


async def test_the_total_time_of_all_calls_of_a_name():
    async with person("train") as p:
        calls = [o for o in p.file.ops if o["name"] == "aten::mm"]
        await p.press("F", Word("aten::mm"), "enter")
        await p.reads("(?m)^▌.aten::mm ")
        line = row(p.screen, "^▌.aten::mm ")
        assert in_table(line)[-1] == pytest.approx(sum(o["dur"] for o in calls), rel=1e-3)
        assert f" {len(calls):,} " in line


async def test_the_most_expensive_kernel():
    async with person("train") as p:
        sums: dict[str, float] = {}
        for kernel in p.file.of("kernel"):
            sums[kernel["name"]] = sums.get(kernel["name"], 0) + kernel["dur"]
        worst = max(sums, key=lambda name: sums[name])
        count = sum(k["name"] == worst for k in p.file.of("kernel"))
        await p.press("4")
        await p.reads("▼GPU")
        lines = p.screen.split("\n")
        first = lines[next(n for n, line in enumerate(lines) if "▼GPU" in line) + 1]
        assert in_table(first)[0] == pytest.approx(sums[worst], rel=1e-4)
        assert f" {count:,} " in first


async def test_the_next_kernel_on_the_stream():
    async with person("train", longest_kernel) as p:
        follows = p.file.work[p.file.work.index(longest_kernel(p.file)) + 1]
        await p.press("right")
        # The selected event's own line: its start tells it from others of its name.
        begin = follows["ts"] - min(e["ts"] for e in p.file.slices)
        await p.pilot.pause()
        found = await p.reads(rf"(?m)^ .*  at {AMOUNT}  for {AMOUNT}  launched ")
        assert us(found[1], found[2]) == pytest.approx(begin, rel=1e-6)
        assert us(found[3], found[4]) == pytest.approx(follows["dur"], rel=1e-3)


SPAN = rf"(?m)^ {AMOUNT} +╷"
"""How long a stretch the timeline shows: at the left of its ruler."""


async def test_zoom_to_a_step_and_back_to_the_earlier_view():
    async with person("train") as p:
        whole = us(*(await p.reads(SPAN)).groups())
        await p.press("7", "down", "enter")
        await p.reads("(?m)^ ProfilerStep#3  at ")
        shown = us(*(await p.reads(SPAN)).groups())
        assert p.file.step(3)["dur"] < shown < 1.1 * p.file.step(3)["dur"]
        await p.press("backspace")
        await p.pilot.pause()
        assert us(*(await p.reads(SPAN)).groups()) == whole


def forward_op(file: File) -> Event:
    return flow_ends(file)[0]


def flow_ends(file: File) -> tuple[Event, Event]:
    """A forward op and the backward op to which the file's arrow leads."""
    ends: dict[Any, dict[str, Event]] = {}
    for event in file.all:
        if event.get("cat") == "fwdbwd":
            ends.setdefault(event["id"], {})[event["ph"]] = event

    def at(mark: Event) -> Event:
        return next(o for o in file.ops if o["tid"] == mark["tid"] and abs(o["ts"] - mark["ts"]) < 1e-3)

    pair = next(e for e in ends.values() if len(e) == 2 and at(e["s"])["name"] == "aten::mul")
    return at(pair["s"]), at(pair["f"])


async def test_jump_to_the_backward_of_a_forward_op():
    async with person("train", forward_op) as p:
        backward = flow_ends(p.file)[1]
        await p.press("right_curly_bracket")
        shown = await p.reads_time(rf"(?m)^ (?:evaluate )?{re.escape(backward['name'])[:14]}.*  for ")
        assert shown == pytest.approx(backward["dur"], rel=0.3)


async def test_count_the_matches_of_a_search():
    async with person("train") as p:
        count = sum("softmax" in e["name"].casefold() for e in p.file.slices)
        assert count > 3
        await p.press("slash", Word("softmax"))
        await p.reads(rf"\b{count:,} matches")


async def test_sort_the_averages_by_cpu_total():
    async with person("train") as p:
        sums: dict[str, float] = {}
        for op in p.file.ops:
            # Calls within calls of the same name count once in PyTorch's table as well.
            sums[op["name"]] = sums.get(op["name"], 0) + op["dur"]
        await p.reads("▼Self GPU")
        await p.press(*["greater_than_sign"] * 4)
        await p.reads("▼CPU total")
        lines = p.screen.split("\n")
        rows = lines[next(n for n, line in enumerate(lines) if "▼CPU total" in line) + 1 :]
        totals = [in_table(line)[-1] for line in rows if re.match(r"▌[ ▸]", line) and in_table(line)]
        assert len(totals) > 5
        assert totals == sorted(totals, reverse=True)


async def test_the_averages_of_a_range():
    async with person("train") as p:
        step = p.file.step(3)
        calls = [o for o in p.file.ops if o["name"] == "aten::mm" and step["ts"] <= o["ts"] < ends(step)]
        assert 0 < len(calls) < sum(o["name"] == "aten::mm" for o in p.file.ops)
        await p.press("7", "down", "enter", "r", "3")
        await p.reads("range of .*: GPU busy")
        await p.press("home")
        await p.reads(rf"(?m)^▌.aten::mm .* {len(calls):,} ")


def ends(event: Event) -> float:
    return float(event["ts"] + event["dur"])


async def test_explain_an_event():
    async with person("train", longest_kernel) as p:
        launch = launch_of(p.file, longest_kernel(p.file))
        await p.press("e")
        await p.reads("what it is")
        await p.reads("◀ this event")
        await p.reads(launch["name"])
        for op in p.file.around(launch)[-2:]:
            await p.reads(re.escape(op["name"]))


async def test_mark_a_moment_and_come_back():
    async with person("train", longest_kernel) as p:
        await p.press("m", Word("here"), "enter", "0")
        whole = us(*(await p.reads(SPAN)).groups())
        kernel = longest_kernel(p.file)
        await p.press("M")
        found = await p.reads(r" here, at ([\d,]+\.\d+) µs")
        zero = min(e["ts"] for e in p.file.slices)
        assert float(found[1].replace(",", "")) == pytest.approx(kernel["ts"] - zero, abs=0.01)
        assert whole > 0


async def test_copy_an_events_name(monkeypatch):
    async with person("train", an_op) as p:
        await p.press("y")
        await p.reads("copied the event's details")
        assert "name: aten::linear" in p.app.clipboard


async def test_export_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with person("train") as p:
        await p.reads("▼Self GPU")
        await p.press("E", "enter")
        with open(tmp_path / (await p.reads(r"wrote (\S+\.csv)"))[1], encoding="utf-8", newline="") as file:
            rows = {r["name"]: r for r in csv.DictReader(file)}
        calls = [o for o in p.file.ops if o["name"] == "aten::mm"]
        assert int(rows["aten::mm"]["calls"]) == len(calls)
        assert float(rows["aten::mm"]["cpu_total_us"]) == pytest.approx(sum(o["dur"] for o in calls))


async def test_how_long_a_kernel_waited_after_its_launch():
    async with person("train", longest_kernel) as p:
        kernel = longest_kernel(p.file)
        delay = kernel["ts"] - launch_of(p.file, kernel)["ts"]
        assert await p.reads_time("  launched ", " before") == pytest.approx(delay, rel=2e-3)


async def test_what_an_op_ran_on_the_gpu():
    async with person("train", an_op) as p:
        kernels = p.file.kernels_of(an_op(p.file))
        await p.press("2", "v")
        total = await p.reads_time(rf"on the GPU +↵ {len(kernels)} events?, ", " in all")
        assert total == pytest.approx(sum(k["dur"] for k in kernels), rel=1e-3)


async def test_how_busy_the_gpu_was():
    async with person("train") as p:
        busy, reached = 0.0, 0.0
        for event in p.file.work:
            busy += max(0.0, ends(event) - max(event["ts"], reached))
            reached = max(reached, ends(event))
        share = busy / (reached - p.file.work[0]["ts"])
        assert int((await p.reads(r"GPU (\d+)% overall"))[1]) == pytest.approx(100 * share, abs=1)


async def test_go_to_a_time():
    async with person("train") as p:
        await p.press("W", "colon", Word("20ms"), "enter")
        await p.reads(r"(?m)^.*╷[\d.]+ ms")
        await p.pilot.pause()
        ruler = row(p.screen, SPAN)
        labels = [float(x) for x in re.findall(r"╷([\d.]+)(?: ms)?", ruler)]
        assert min(labels) <= 20.5
        assert max(labels) >= 19.5
