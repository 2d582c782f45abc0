"""Traces as Perfetto's SDK and other tools write them, made with the `perfetto` package."""

from typing import Any

from perfetto.trace_builder.proto_builder import TraceProtoBuilder

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CLEARED, NEEDS = 1, 2
REAL, MONOTONIC, BOOT, OWN = 1, 3, 6, 64
ZERO = 5_000_000_000_000
"""Boot time at which the traces begin."""
EPOCH = 1_790_000_000_000_000_000


class Builder:
    """Adds packets; times are nanoseconds from `ZERO`."""

    def __init__(self) -> None:
        self.made = TraceProtoBuilder()

    def packet(self, time: int | None = None, sequence: int = 1, clock: int | None = None) -> Any:
        packet = self.made.add_packet()
        if time is not None:
            packet.timestamp = ZERO + time
        packet.trusted_packet_sequence_id = sequence
        if clock is not None:
            packet.timestamp_clock_id = clock
        return packet

    def event(self, time: int, kind: int, track: int | None = None, name: str = "", **also: Any) -> Any:
        packet = self.packet(time, also.pop("sequence", 1), also.pop("clock", None))
        event = packet.track_event
        event.type = kind
        if track is not None:
            event.track_uuid = track
        if name:
            event.name = name
        for key, value in also.items():
            if isinstance(value, list):
                getattr(event, key).extend(value)
            else:
                setattr(event, key, value)
        return packet

    def slice(self, begin: int, end: int, track: int, name: str, **also: Any) -> None:
        self.event(begin, BEGIN, track, name, **also)
        self.event(end, END, track)

    def track(self, uuid: int, name: str = "", parent: int | None = None) -> Any:
        track = self.packet().track_descriptor
        track.uuid = uuid
        if name:
            track.name = name
        if parent is not None:
            track.parent_uuid = parent
        return track

    def thread(self, uuid: int, pid: int, tid: int, name: str = "", parent: int | None = None) -> Any:
        track = self.track(uuid, "", parent)
        track.thread.pid, track.thread.tid = pid, tid
        if name:
            track.thread.thread_name = name
        return track

    def clocks(self, sequence: int = 1, **times: int) -> Any:
        snapshot = self.packet(None, sequence).clock_snapshot
        for name, time in times.items():
            clock = snapshot.clocks.add()
            clock.clock_id, clock.timestamp = int(name.removeprefix("c")), time
        return snapshot

    def bytes(self) -> bytes:
        return bytes(self.made.serialize())


def tracks() -> bytes:
    """Slices on threads, processes, tracks of their own and tracks within; instants, counters, flows."""
    b = Builder()
    b.clocks(c6=ZERO, c1=EPOCH, c3=ZERO - 777)
    process = b.track(10).process
    process.pid, process.process_name = 77, "server"
    b.thread(11, 77, 78, "worker", 10)
    b.track(12, "requests", 10)
    b.track(13, "GET /", 12)
    b.track(14, "GET /", 12)  # of the same name: one lane, whose slices overlap
    b.track(15, "alone")
    b.slice(0, 100, 11, "outer", categories=["net", "rpc"])
    b.slice(10, 60, 11, "inner", flow_ids=[5])
    b.event(20, BEGIN, 13, "one", flow_ids=[5])
    b.event(30, BEGIN, 14, "two")
    b.event(90, END, 13)
    b.event(95, END, 14)
    b.slice(60, 70, 10, "of the process", terminating_flow_ids=[(1 << 64) - 5])
    b.slice(41, 51, 15, "on its own", terminating_flow_ids=[5], flow_ids=[(1 << 64) - 5])
    b.event(55, INSTANT, 11, "now", categories=["mark"])
    counter = b.track(16, "memory", 10).counter
    counter.unit = 3
    counter.unit_multiplier = 1024
    for time, value in ((5, 3), (25, 7)):
        b.event(time, COUNTER, 16, counter_value=value)
    counter = b.track(17, "requests done", 10).counter
    counter.is_incremental, counter.unit_name = True, "requests"
    for time in (6, 16, 26):
        b.event(time, COUNTER, 17, counter_value=2)
    b.track(18, "load").counter.SetInParent()
    b.event(33, COUNTER, 18, double_counter_value=0.5)
    return b.bytes()


def sequences() -> bytes:
    """Two sequences with what they have interned, cleared in the middle, with defaults and clocks of their
    own, and what no viewer of slices shows."""
    b = Builder()
    b.clocks(c6=ZERO, c1=EPOCH)
    for sequence, name in ((1, "one"), (2, "two")):
        b.thread(20 + sequence, 5, 50 + sequence, name)
        packet = b.packet(None, sequence)
        packet.sequence_flags = CLEARED
        packet.trace_packet_defaults.track_event_defaults.track_uuid = 20 + sequence
        packet.trace_packet_defaults.timestamp_clock_id = OWN
        clock = packet.clock_snapshot.clocks.add()
        clock.clock_id, clock.timestamp = BOOT, ZERO
        clock = packet.clock_snapshot.clocks.add()
        clock.clock_id, clock.timestamp, clock.is_incremental, clock.unit_multiplier_ns = (
            OWN,
            ZERO // 1000,
            True,
            1000,
        )
        packet.interned_data.event_names.add(iid=1, name=f"first of {name}")
        packet.interned_data.event_categories.add(iid=1, name="a")
        packet.interned_data.event_categories.add(iid=2, name="b")
        packet.interned_data.debug_annotation_names.add(iid=1, name="correlation")
        packet.interned_data.debug_annotation_names.add(iid=2, name="said")
        packet.interned_data.debug_annotation_string_values.add(iid=1, str=b"a word")
    for step in range(4):
        for sequence in (1, 2):
            for kind in (BEGIN, END):
                packet = b.made.add_packet()
                packet.trusted_packet_sequence_id, packet.timestamp = sequence, 2 + sequence
                packet.sequence_flags = NEEDS
                packet.track_event.type = kind
                if kind == BEGIN:
                    packet.track_event.name_iid = 1
                    packet.track_event.category_iids.extend([1, 2])
                    note = packet.track_event.debug_annotations.add()
                    note.name_iid, note.int_value = 1, 100 * sequence + step
                else:
                    note = packet.track_event.debug_annotations.add()
                    note.name_iid, note.string_value_iid = 2, 1
        if step == 1:
            packet = b.packet(None, 2)
            packet.sequence_flags = CLEARED
            packet.previous_packet_dropped = 1
            packet.trace_packet_defaults.track_event_defaults.track_uuid = 22
            packet.trace_packet_defaults.timestamp_clock_id = OWN
            packet.interned_data.event_names.add(iid=1, name="second of two")
            packet.interned_data.event_categories.add(iid=1, name="c")
            packet.interned_data.event_categories.add(iid=2, name="d")
    b.packet(70).ftrace_events.cpu = 3
    b.packet(71).process_stats.SetInParent()
    one = b.packet(72).process_tree.processes.add()
    one.pid = 5
    one.cmdline.append("/usr/bin/prog")
    return b.bytes()


def gpu() -> bytes:
    """GPU work with queues of other names, waits, counters without interned descriptors."""
    b = Builder()
    b.clocks(c6=ZERO, c1=EPOCH)
    packet = b.packet(None, 3)
    packet.sequence_flags = CLEARED
    packet.interned_data.gpu_specifications.add(iid=1, name="Vertex", category=1)
    packet.interned_data.gpu_specifications.add(iid=2, name="Dispatch", category=2)
    packet.interned_data.gpu_specifications.add(iid=9, name="queue A")
    for number in range(4):
        packet = b.packet(100 * number, 3)
        stage = packet.gpu_render_stage_event
        stage.event_id, stage.duration, stage.hw_queue_iid, stage.stage_iid = (
            number + 1,
            60,
            9,
            1 + number % 2,
        )
        stage.gpu_id = 1
        if number:
            stage.event_wait_ids.extend([number, 99])
        if number == 2:
            stage.name = "named"
    first = b.packet(500, 4).gpu_render_stage_event
    for name in ("binning", "render"):
        first.specifications.stage.add(name=name)
    first.specifications.hw_queue.add(name="queue 0 of old")
    first.stage_id, first.hw_queue_id, first.duration = 1, 0, 11
    counters = b.packet(600, 4).gpu_counter_event
    counters.gpu_id = 1
    spec = counters.counter_descriptor.specs.add()
    spec.counter_id, spec.name = 7, "GPU busy"
    for value in (1.5, 2.5):
        packet = b.packet(610 + int(value), 4)
        packet.gpu_counter_event.gpu_id = 1
        sample = packet.gpu_counter_event.counters.add()
        sample.counter_id, sample.double_value = 7, value
    info = b.packet(None, 4).gpu_info.gpus.add()
    info.name, info.model = "gpu1", "Model X"
    return b.bytes()


def transfers() -> bytes:
    """Copies and memsets with and without what names them."""
    b = Builder()
    b.clocks(c6=ZERO, c1=EPOCH)
    kinds = {"copy kind": "HtoD", "src kind": "pinned", "dst kind": "3"}
    for number, (name, said) in enumerate((
        ("Memcpy", kinds), ("Memset", {"memory kind": "2"}), ("Memcpy", {**kinds, "copy kind": "D" * 21}),
        ("Memcpy", {"copy kind": "DtoD"}), ("Memset", {"memory kind": "no kind!"}), ("Memset", {}),
        ("other", {"memory kind": "3"}), ("Memset", {"memory kind": "device_static", "device id": "1"}),
    )):  # fmt: skip
        stage = b.packet(100 * number).gpu_render_stage_event
        stage.name, stage.duration, stage.event_id = name, 60, number + 1
        for key, value in said.items():
            stage.extra_data.add(name=key, value=value)
    return b.bytes()


def arguments() -> bytes:
    """Annotations of every type."""
    b = Builder()
    b.thread(1, 1, 1)
    event = b.event(0, BEGIN, 1, "all types").track_event
    for field, value in (
        ("bool_value", True), ("uint_value", 1 << 63), ("int_value", -5), ("double_value", 0.25),
        ("string_value", "text"), ("pointer_value", 255), ("legacy_json_value", '{"a": 1}'),
    ):  # fmt: skip
        note = event.debug_annotations.add()
        note.name = field
        setattr(note, field, value)
    note = event.debug_annotations.add()
    note.name = "nested"
    entry = note.dict_entries.add()
    entry.name = "list"
    for number in (1, 2):
        entry.array_values.add().int_value = number
    note = event.debug_annotations.add()
    note.name = "deep"
    for _ in range(100):
        note = note.array_values.add()
    note = event.debug_annotations.add()
    note.name = "older"
    note.nested_value.nested_type = 1
    note.nested_value.dict_keys.append("k")
    note.nested_value.dict_values.add().int_value = 3
    b.event(10, END, 1)
    return b.bytes()


def many() -> bytes:
    """More of everything than one event may have."""
    b = Builder()
    b.thread(1, 1, 1)
    b.slice(0, 5, 1, "busy", flow_ids=list(range(1, 300)), category_iids=list(range(300)))
    b.packet(7).gpu_render_stage_event.event_wait_ids.extend(range(300))
    counters = b.packet(8).gpu_counter_event
    for number in range(300):
        counters.counters.add(counter_id=number, int_value=number)
    return b.bytes()


ALL = {
    "tracks": tracks, "sequences": sequences, "gpu": gpu, "transfers": transfers, "arguments": arguments,
    "many": many,
}  # fmt: skip
