"""What is noise, which times belong together, and what counts as another size: on numbers made by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compare.conftest import comparison
from tests.compare.test_some_steps import OPS, recording
from tests.kineto import cpu, kernel, launch, memcpy, step, trace_of

from tracetui.analysis.part import Part
from tracetui.compare import align as aligning
from tracetui.compare.align import FEW, WINDOW, align
from tracetui.compare.compare import compare, compare_steps
from tracetui.compare.examples import in_pairs, telling
from tracetui.compare.metrics import _metric, busy_is_noise, linked
from tracetui.compare.model import Explanation, Metric
from tracetui.compare.sides import pair_rounds, side_of
from tracetui.compare.timing import general, resized, slower, stretched
from tracetui.trace import Kind, Trace, load


def metric(a: list[float], b: list[float], machine: float = 0.0, slack: float = 0.0) -> Metric:
    return _metric(np.array(a), np.array(b), lambda *_: machine, slack)


def test_a_change_and_its_ratio():
    assert (Metric(2, 5, False).change, Metric(2, 5, False).ratio) == (3, 2.5)
    assert (Metric(5, 2, False).change, Metric(5, 2, False).ratio) == (-3, 0.4)
    assert (Metric(0, 2, False).change, Metric(0, 2, False).ratio) == (2, None)
    for a, b in ((None, 2), (2, None), (None, None)):
        assert (Metric(a, b, True).change, Metric(a, b, True).ratio) == (None, None)


def test_medians_and_what_the_machine_explains():
    one = metric([1, 2, 9], [4, 5, 12])
    assert (one.a, one.b, one.spread_a, one.spread_b, one.machine) == (2, 5, (1, 9), (4, 12), 0)
    assert not metric([10] * 3, [11] * 3).within_noise
    assert metric([10] * 3, [11] * 3, machine=1).within_noise
    assert metric([10] * 3, [11] * 3, machine=1).machine == 1
    assert not metric([11] * 3, [10] * 3, machine=1).within_noise
    assert metric([11] * 3, [10] * 3, machine=-1).within_noise
    # Of nothing nothing is known.
    for a, b in (([], [1]), ([1], []), ([], [])):
        assert metric(a, b) == Metric(None, None, True)


@pytest.mark.parametrize(("away", "noise"), [(0, True), (1.9, True), (2.1, False)])
def test_a_share_by_which_medians_may_differ(away, noise):
    assert metric([100] * 3, [100 - away] * 3, slack=0.02).within_noise == noise
    assert metric([100 - away] * 3, [100] * 3, slack=0.02).within_noise == noise
    assert metric([100] * 3, [100 - away] * 3).within_noise == (away == 0)


def test_noise_is_what_the_steps_of_one_side_vary():
    """The deviation of the median step is 2 on one side, of six steps: 3 standard errors are 4.6."""
    varied, alike = [90, 98, 98, 102, 102, 110], [0.0] * 6
    for by, noise in ((4, True), (5, False)):
        other = [100 + by + one for one in alike]
        assert metric(varied, other).within_noise == metric(other, varied).within_noise == noise
    # With four times as many steps it is half.
    assert not metric(varied * 4, [103.0] * 24).within_noise
    assert metric(varied * 4, [102.0] * 24).within_noise


def test_where_every_step_of_one_side_takes_longer_than_any_of_the_other_it_is_no_noise():
    """The machine apart; three steps may do so by chance."""
    one, other = [10.0, 10.2, 10.8, 10.9], [14.3, 15.3, 16.8, 18.9]
    assert not metric(one, other).within_noise
    assert not metric(one, other, machine=3).within_noise
    assert metric(one, other, machine=3.5).within_noise
    assert not metric(other, one, machine=-3).within_noise
    assert metric(other, one, machine=-3.5).within_noise
    assert metric(one[1:], other[1:], machine=3).within_noise


def test_what_only_one_side_has_is_no_noise():
    some = [1.0, 50.0, 90.0]
    assert not metric([0, 0, 0], some).within_noise
    assert not metric(some, [0, 0, 0]).within_noise
    # Neither is what a step of it has not, nor where the other has some, too, seen to be there.
    assert metric([0, 0, 0], [0, *some]).within_noise
    assert metric([0, 0, 30], some).within_noise


def test_which_change_is_told_first():
    def first(device: int, cpu: int, matters: str = "", on: str = "device") -> list[tuple[int, str]]:
        one = Explanation("new", "New.", device, on, cpu_change_ns=cpu, matters=matters)
        return [one.first(False), one.first(True)]

    assert first(5, 3) == [(5, "device")] * 2
    assert first(-5, 3) == [(-5, "device")] * 2
    assert first(3, 3) == [(3, "device")] * 2
    assert first(3, -5) == [(-5, "cpu"), (3, "device")]
    assert first(3, 5, "device") == [(3, "device")] * 2
    assert first(5, 3, "cpu") == [(3, "cpu")] * 2
    assert first(5, 0, "device", "cpu") == [(5, "cpu")] * 2


def test_places_are_of_the_longest_of_what_takes_most_time(tmp_path):
    names = ["f", "g", "f", "f", "g", "h"]
    trace = trace_of(tmp_path, *(cpu(name, 10 * n, 5) for n, name in enumerate(names)))
    at, place = np.arange(6), np.array([0, 0, 0, 1, 1, 3])
    # f takes 7 in all, g 6, h 5: in place 0 the longer f, in 3 the only one, in 2 nothing is.
    assert telling(trace, at, place, np.array([2, 5, 3, 2, 1, 5]), 4).tolist() == [2, 3, -1, 5]
    # Of equal ones the first.
    assert telling(trace, at, np.zeros(6, int), np.ones(6, int), 1).tolist() == [0]
    assert telling(trace, at[:0], at[:0], at[:0], 2).tolist() == [-1, -1]
    a, b = np.array([7, 3, 5]), np.array([1, 2, 0])
    assert in_pairs(a, b).tolist() == [[3, 2], [5, 0], [7, 1]]
    assert in_pairs(a, b, np.array([4, 9, 4])).tolist() == [[3, 2], [5, 0], [7, 1]]
    assert in_pairs(a, b, np.array([4, 1, 3])).tolist() == [[7, 1], [5, 0], [3, 2]]


def alike(a: list[int], b: list[int]) -> list[tuple[int, int]]:
    at_a, at_b = align(np.array(a, np.int64), np.array(b, np.int64))
    return list(zip(at_a.tolist(), at_b.tolist(), strict=True))


def test_what_two_sequences_have_in_common():
    assert alike([1, 2, 3], [1, 2, 3]) == [(0, 0), (1, 1), (2, 2)]
    assert alike([1, 2, 3], [1, 9, 3]) == [(0, 0), (2, 2)]
    assert alike([1, 2, 3, 4], [1, 3, 4]) == [(0, 0), (2, 1), (3, 2)]
    assert alike([1, 1], [1]) == [(0, 0)]
    assert alike([5, 1, 7, 2, 6], [4, 1, 8, 8, 2, 3]) == [(1, 1), (3, 4)]
    assert alike([1, 2], [3, 4]) == alike([], [1]) == alike([1], []) == []
    # However many have nothing in common but one.
    many = list(range(2 * FEW))
    assert alike([-1, *many, -2], [-3, *(n + 1000 for n in many[:-1]), many[-1], -4]) == [(128, 128)]


def test_of_very_many_that_are_alike_each_is_matched_once(monkeypatch):
    """Window by window, also where a window begins as the one before it ended."""
    monkeypatch.setattr(aligning, "WINDOW", 64)
    some = alike([-1, *[0] * 300, -2], [-3, *([0] * 36 + [9]) * 8, -4])
    assert len({i for i, _ in some}) == len({j for _, j in some}) == len(some) == 36 * 8


def test_what_follows_a_long_stretch_that_is_new_on_both_sides(monkeypatch):
    monkeypatch.setattr(aligning, "WINDOW", 64)
    monkeypatch.setattr(aligning, "LARGEST", 64)
    same = list(range(300))
    a, b = ([end, *range(base, base + 200), *same, end] for end, base in ((-1, 1_000), (-2, 2_000)))
    assert alike(a, b) == [(n + 201, n + 201) for n in same]


def test_what_long_sequences_have_in_common():
    """Longer than what is compared at a time; every 1,000th is another one, and 100 are new in the middle."""
    a = np.arange(2 * WINDOW + 500) % 911
    b = np.concatenate([a[:WINDOW], np.full(100, 5000), a[WINDOW:]])
    a = np.concatenate([[-1], a, [-2]])
    b = np.concatenate([[-3], b, [-4]])
    b[1000::1000] = 6000
    i, j = align(a, b)
    assert (a[i] == b[j]).all()
    assert (np.diff(i) > 0).all()
    assert (np.diff(j) > 0).all()
    assert len(i) == len(a) - 2 - np.count_nonzero(b[: WINDOW + 1] == 6000) - np.count_nonzero(
        b[WINDOW + 101 :] == 6000
    )
    # Where most of one side is new, too: as much as several windows.
    new = np.concatenate([a[1:3000], np.full(3 * WINDOW, 7000), a[3000:-1]])
    i, j = align(a[1:-1], new)
    assert i.tolist() == list(range(len(a) - 2))
    assert set(j[2999:] - i[2999:]) == {3 * WINDOW}


def steps_of(tmp_path: Path, name: str, *lengths: float) -> Any:
    """Steps of one op of these lengths (us), of one name; 0 for a step of another op."""
    now, events = 0.0, []
    for n, length in enumerate(lengths):
        events += [
            step(n, now, (length or 10) + 5), cpu("aten::f" if length else "aten::g", now + 1, length or 10)
        ]  # fmt: skip
        now += (length or 10) + 8
    folder = tmp_path / name
    folder.mkdir()
    return side_of(Part(trace_of(folder, *events)))


def test_which_steps_are_paired(tmp_path):
    """As many in order; of more those that launch alike; with a single one that nearest to the medians."""
    three = steps_of(tmp_path, "a", 10, 20, 30)
    assert pair_rounds(three, steps_of(tmp_path, "b", 90, 0, 50)) == [(0, 0), (1, 1), (2, 2)]
    odd = steps_of(tmp_path, "c", 0, 10, 10, 0)
    assert pair_rounds(odd, steps_of(tmp_path, "d", 10, 10)) == [(1, 0), (2, 1)]
    assert pair_rounds(steps_of(tmp_path, "e", 10, 10), odd) == [(0, 1), (1, 2)]
    single = steps_of(tmp_path, "f", 25)
    assert pair_rounds(steps_of(tmp_path, "g", 30, 10, 20, 90, 19), single) == [(2, 0)]
    assert pair_rounds(single, steps_of(tmp_path, "h", 10, 60, 20, 70, 19)) == [(0, 2)]
    # None alike: those nearest to the medians.
    assert pair_rounds(steps_of(tmp_path, "i", 10, 50, 20), steps_of(tmp_path, "j", 0, 0)) == [(2, 0)]


def test_one_step_and_the_others(tmp_path):
    events = recording(*[[OPS[0], ("aten::f", length)] for length in (30, 30, 60, 30)])
    comparison(tmp_path, events, events)
    results = Part(load(tmp_path / "a.json"))
    takes, than = "Step 3 takes 88.0 µs", "58.0 µs (+52%)."
    assert compare_steps(results, 2).answer == f"{takes}, the median of the others {than}"
    assert compare_steps(results, 2, 1).answer == f"{takes}, step 2 {than}"
    assert compare_steps(results, 1, 2).answer == "Step 2 takes 58.0 µs, step 3 88.0 µs (-34%)."
    assert compare_steps(results, 0).answer == "No difference: the same work, in the same time."
    several = compare(side_of(results, [0]), side_of(results, [1, 2, 3]))
    assert several.answer == "No difference: the same work, in the same time."
    several = compare(side_of(results, [2]), side_of(results, [0, 1, 3]))
    assert several.answer == "The median step takes 58.0 µs, step 3 88.0 µs (-34%)."
    for step_, against in ((4, None), (-1, None), (0, 4), (0, -1)):
        with pytest.raises(IndexError):
            compare_steps(results, step_, against)
    comparison(tmp_path, recording([OPS[0]]), recording([OPS[0]]))
    with pytest.raises(IndexError):  # a single step has no others
        compare_steps(Part(load(tmp_path / "a.json")), 0)


def test_what_has_another_size(tmp_path):
    """A grid, a block, bytes, or the shapes of the same op; not what only one recording knows."""

    def one(**more: Any) -> list[Any]:
        args = {key: more[key] for key in ("grid", "block") if key in more}
        work = kernel(10, 5, 1) if "bytes" not in more else memcpy(10, more["bytes"], 1)
        work["args"] |= args
        work["dur"] = 5
        return [
            cpu(more.get("op", "aten::f"), 0, 9, **{"Input Dims": more.get("dims", [])}), launch(2, 1), work
        ]  # fmt: skip

    def differ(a: dict[str, Any], b: dict[str, Any], device: bool = True) -> bool:
        sides = []
        for n, these in enumerate((a, b)):
            (tmp_path / str(n)).mkdir(exist_ok=True)
            sides.append(trace_of(tmp_path / str(n), *one(**these)))
        return bool(resized(*sides, *[np.array([2 if device else 0]) for _ in sides], device)[0])

    two: list[Trace] = []
    grid, dims = {"grid": [4, 1, 1]}, {"dims": [[4, 4]]}
    assert not differ(grid, grid)
    assert differ(grid, {"grid": [5, 1, 1]})
    assert differ({"block": [4, 1, 1]}, {"block": [8, 1, 1]})
    assert differ({"bytes": 3}, {"bytes": 4})
    assert not differ(grid, {})
    assert not differ({}, {"block": [4, 1, 1]})
    for device in (True, False):
        assert not differ(dims, dims, device)
        assert differ(dims, {"dims": [[4, 5]]}, device)
        assert not differ(dims, {"dims": [[]]}, device)
        assert not differ(dims, {"dims": [[4, 4], [3]]}, device)
    assert not differ(dims, {"dims": [[4, 5]], "op": "aten::g"})
    # Of two calls of one kernel, the second.
    for side, sizes in (("0", [4, 1, 1]), ("1", [5, 1, 1])):
        later = [{**event, "ts": event["ts"] + 100} for event in one(grid=sizes)]
        later[1:] = launch(102, 2), {**later[2], "name": "k1", "args": later[2]["args"] | {"correlation": 2}}
        two.append(trace_of(tmp_path / side, *one(**grid), *later))
    at = np.flatnonzero(two[0].kind == Kind.KERNEL)
    assert resized(*two, at, at, True).tolist() == [False, True]
    nothing = np.zeros(0, np.int64)
    a = trace_of(tmp_path, *one())
    assert resized(a, a, nothing, nothing, True).tolist() == []


def test_what_takes_longer_along_with_larger_inputs(tmp_path):
    """The first is larger, and takes twice as long."""

    def found(larger: float, *times: tuple[float, float]) -> list[bool]:
        a, b = (
            trace_of(
                tmp_path, *(kernel(1000 * n, t[side], n + 1) for n, t in enumerate([(100, larger), *times]))
            )
            for side in (0, 1)
        )
        at, grown = np.arange(len(times) + 1), np.arange(len(times) + 1) == 0
        return stretched(a, b, at, at, grown).tolist()[1:]

    assert found(200, (50, 100), (50, 50), (50, 40), (50, 60)) == [True, False, False, True]
    assert found(50, (50, 100), (50, 50), (50, 40)) == [False, False, True]
    # As long as before, or a small part of all.
    assert found(104, (50, 100)) == [False]
    assert found(200, (900, 1800)) == [False]
    assert found(200) == []


def test_names_that_took_longer_than_the_rest():
    """Twenty names of ten calls each, all 1.2 times as long, but for one that took twice as long."""
    random = np.random.default_rng(3)
    name = np.repeat(np.arange(20), 10)
    before = random.integers(38_000, 42_000, 200)
    after = (before * random.uniform(1.17, 1.23, 200)).astype(np.int64)
    at = np.arange(200)
    total = float(before.sum())
    assert slower(name, before, after, at, at, total) == []
    assert general(name, before, after) == pytest.approx(1.2, rel=0.01)
    late = np.where(name == 7, 2 * before, after)
    (one,) = slower(name, before, late, at, at, total)
    assert (one.name, one.of, one.a.tolist(), one.b.tolist()) == (7, 10, [*range(70, 80)], [*range(70, 80)])
    assert one.change == pytest.approx(0.8 * before[70:80].sum(), rel=0.02)
    # One that took half as long; of it no more is told than it changed.
    (one,) = slower(name, before, np.where(name == 7, before // 2, after), at, at, total)
    assert one.change == pytest.approx(-0.5 * before[70:80].sum(), rel=0.02)
    # In a round that takes a hundred times as long, that is nothing.
    assert slower(name, before, late, at, at, 100 * total) == []
    # Nor is what only keeps up with the rest, the other way round.
    assert slower(name, before, np.where(name == 7, before * 1.15, after).astype(int), at, at, total) == []


def test_copies_of_one_recording_differ_in_nothing_else():
    """Every difference is one, however small, unless times are rounded."""
    name, at = np.arange(50), np.arange(50)
    before = np.full(50, 10_000)
    after = before.copy()
    after[4], after[9], after[11] = 10_100, 9_000, 10_002
    found = slower(name, before, after, at, at, 1e9)
    assert [(one.name, one.change) for one in found] == [(4, 100), (9, -1000)]
    short = np.full(50, 500)
    found = slower(name, short, short + 2 * (name == 3) + 3 * (name == 5), at, at, 1e9)
    assert [(one.name, one.change) for one in found] == [(5, 3)]
    assert (
        slower(name, before, before, at, at, 1e9)
        == slower(name[:0], before[:0], before[:0], at[:0], at[:0], 1)
        == []
    )


@pytest.mark.parametrize(("step", "work", "busy", "noise"), [
    ((10, 12, False), (5, 4, False), True, False),  # less work in a longer step
    ((10, 12, False), (5, 5.5, False), True, True),
    ((10, 12, True), (5, 4, False), True, True),
    ((10, 12, False), (5, 4, False), False, False),
    ((10, 12, True), (5, 4, True), False, True),
    ((10, 12, False), (5, 4, True), True, True),  # that there is less work is not known
    ((10, 12, False), (5, 5.5, False), False, False),
    ((10, 12, False), (5, 5.05, True), True, False),  # as much work in a longer step
])  # fmt: skip
def test_what_a_busy_share_is_made_of_tells_whether_it_is_noise(step, work, busy, noise):
    share = Metric(work[0] / step[0], work[1] / step[1], busy)
    copies = Metric(0, 0, True)
    rest = {"step_ns": Metric(*step), "device_ns": Metric(*work), "copies_ns": copies}
    assert busy_is_noise({**rest, "busy_share": share}) is noise
    assert busy_is_noise({**rest, "busy_share": Metric(None, None, True)})


@pytest.mark.parametrize(("after", "noise"), [(18, True), (20, False), (-20, False)])
def test_copies_that_run_beside_kernels_are_seen_in_the_busy_share(after, noise):
    """From a fiftieth of the step on; where they do not, step and work decide."""
    metrics = {
        "step_ns": Metric(1000, 1010, True), "device_ns": Metric(500, 501, True),
        "copies_ns": Metric(100, 100 + after, False), "busy_share": Metric(0.5, 0.3, False)
    }  # fmt: skip
    assert busy_is_noise(metrics) is noise


def test_a_launch_that_is_the_first_event_links_too(tmp_path):
    trace = trace_of(tmp_path, launch(0, 1), kernel(9, 5, 1))
    assert trace.launch.tolist() == [-1, 0]
    assert linked(trace)
    assert not linked(trace_of(tmp_path, launch(0, 1), kernel(9, 5, 2)))
