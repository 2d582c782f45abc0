"""What a .pftrace says, read with Perfetto's own descriptors: slow and simple."""

import gzip
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


class Slice(NamedTuple):
    name: str
    start: int
    duration: int
    category: str
    args: dict[str, Any]


def trace_of(path: str | Path) -> Any:
    data = Path(path).read_bytes()
    trace = pb.Trace()
    trace.ParseFromString(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    return trace


class State:
    """What one sequence has interned."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.categories: dict[int, str] = {}
        self.annotations: dict[int, str] = {}
        self.values: dict[int, str] = {}
        self.stages: dict[int, str] = {}

    def add(self, data: Any) -> None:
        for one in data.event_names:
            self.names.setdefault(one.iid, one.name)
        for one in data.event_categories:
            self.categories.setdefault(one.iid, one.name)
        for one in data.debug_annotation_names:
            self.annotations.setdefault(one.iid, one.name)
        for one in data.debug_annotation_string_values:
            self.values.setdefault(one.iid, one.str.decode())
        for one in data.gpu_specifications:
            self.stages.setdefault(one.iid, one.name)

    def value(self, one: Any) -> Any:
        kind = one.WhichOneof("value")
        if kind == "string_value_iid":
            return self.values[one.string_value_iid]
        if kind is not None:
            return getattr(one, kind)
        if one.dict_entries:
            return {self.name(entry): self.value(entry) for entry in one.dict_entries}
        return [self.value(entry) for entry in one.array_values]

    def name(self, one: Any) -> str:
        return one.name or self.annotations.get(one.name_iid, "")


def slices(trace: Any) -> list[Slice]:
    """All slices of a trace of one clock, in any order."""
    found: list[Slice] = []
    states: dict[int, State] = defaultdict(State)
    events: dict[int, list[tuple[int, int, Slice | None]]] = defaultdict(list)
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        if packet.sequence_flags & 1:
            states[sequence] = State()
        state = states[sequence]
        state.add(packet.interned_data)
        if packet.HasField("track_event"):
            event = packet.track_event
            name = event.name if event.HasField("name") else state.names.get(event.name_iid, "")
            category = ",".join([*(state.categories[i] for i in event.category_iids), *event.categories])
            args = {state.name(one): state.value(one) for one in event.debug_annotations}
            made = Slice(name, packet.timestamp, 0, category, args)
            if event.type in (1, 2):
                events[event.track_uuid].append((packet.timestamp, event.type, made))
        elif packet.HasField("gpu_render_stage_event"):
            stage = packet.gpu_render_stage_event
            kind = state.stages.get(stage.stage_iid, "")
            name = stage.name or state.names.get(stage.name_iid, "") or kind
            args = {one.name: one.value for one in stage.extra_data}
            found.append(Slice(name, packet.timestamp, stage.duration, kind, args))
    for some in events.values():
        stack: list[Slice] = []
        for time, kind, made in sorted(some, key=lambda event: event[0]):
            assert made is not None
            if kind == 1:
                stack.append(made)
            elif stack:
                begun = stack.pop()
                found.append(begun._replace(duration=time - begun.start, args={**begun.args, **made.args}))
    return found
