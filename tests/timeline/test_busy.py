"""The timeline and the gaps agree on when a device was busy."""

from tests import kineto

from tracetui.analysis.idle.gaps import find_gaps
from tracetui.timeline.busy import IN_OPS, busy_of, overall
from tracetui.timeline.frame import paint


def test_a_kernel_without_length_ends_a_gap(make, make_scene):
    trace = make([(0, 0, 100_000, "k"), (0, 1_000_000, 0, "empty")], streams=[0])
    (gaps,) = find_gaps(trace)
    assert (gaps.busy, gaps.last - gaps.first) == (100_000, 1_000_000)
    scene = make_scene(trace)
    assert overall(scene.source.devices.values()) == 0.1
    assert "10% overall" in paint(scene, 10).text(0)


def test_a_device_without_plausible_work_does_not_count(tmp_path):
    wait = kineto.kernel(50, 10, 1, name="Context Sync", cat="cuda_sync")
    trace = kineto.trace_of(tmp_path, kineto.cpu("aten::mm", 10, 20), wait)
    assert [lane.device for lane in trace.lanes if lane.device >= 0] == [0]
    assert {key: one.total for key, one in busy_of(trace).items()} == {IN_OPS: 20_000}


def test_without_a_device_the_time_in_ops(tmp_path):
    """An annotation around everything is no work: "CPU busy 100%" would say nothing."""
    note = kineto.cpu("ProfilerStep#1", 0, 100, "user_annotation")
    trace = kineto.trace_of(tmp_path, note, kineto.cpu("aten::mm", 10, 20), kineto.cpu("aten::add", 60, 10))
    assert {key: one.total for key, one in busy_of(trace).items()} == {IN_OPS: 30_000}
    trace = kineto.trace_of(tmp_path, note)
    assert {key: one.total for key, one in busy_of(trace).items()} == {-2: 100_000}
