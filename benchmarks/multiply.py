"""Makes a large trace of a recording that PyTorch wrote twice, as JSON and as .pftrace: the same events again
and again, end to end in time, with ids of their own.

    python benchmarks/multiply.py RECORDING.json.gz OUT.json [--slices 1000000]
    python benchmarks/multiply.py RECORDING.pftrace.gz OUT.pftrace [--slices 1000000]

A name that ends in .gz is compressed, as PyTorch does it (level 1). `benchmarks/load.py run OUT.json`
measures both.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

APART = 1_000_000
"""Nanoseconds between two copies."""
IDS = 1 << 20
"""Between the ids of two copies."""
SHARED = {"correlation", "External id"}


def multiplied_json(data: bytes, slices: int) -> Iterator[bytes]:
    """The text of the large trace, in parts."""
    trace = json.loads(data)
    events = trace.pop("traceEvents")
    labels = [event for event in events if event["ph"] == "M"]
    events = [event for event in events if event["ph"] != "M"]
    begin = min(event["ts"] for event in events)
    length = max(event["ts"] + event.get("dur", 0) for event in events) - begin + APART / 1000
    copies = -(-slices // sum(event["ph"] == "X" for event in events))
    yield json.dumps(trace, separators=(",", ":"))[:-1].encode() + b',"traceEvents":['
    yield ",".join(json.dumps(label, separators=(",", ":")) for label in labels).encode()
    for number in range(copies):
        yield b"".join(
            b"," + json.dumps(_moved(event, number, length), separators=(",", ":")).encode()
            for event in events
        )
    yield b"]}"


def _moved(event: dict[str, Any], number: int, length: float) -> dict[str, Any]:
    moved = {**event, "ts": round(event["ts"] + number * length, 3)}
    if "id" in event:
        moved["id"] = event["id"] + number * IDS
    if "args" in event:
        moved["args"] = {k: v + number * IDS if k in SHARED else v for k, v in event["args"].items()}
    return moved


def multiplied_packets(data: bytes, slices: int) -> Iterator[bytes]:
    """The bytes of the large trace, in parts."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

    trace = pb.Trace()
    trace.ParseFromString(data)
    events = [p for p in trace.packet if p.WhichOneof("data") in _EVENTS]
    yield pb.Trace(
        packet=[p for p in trace.packet if p.WhichOneof("data") not in _EVENTS]
    ).SerializeToString()
    times = [p.timestamp for p in events]
    length = max(p.timestamp + p.gpu_render_stage_event.duration for p in events) - min(times) + APART
    each = sum(p.track_event.type == 1 or p.HasField("gpu_render_stage_event") for p in events)
    shared = [(p, _ids(p)) for p in events]
    for number in range(-(-slices // each)):
        for packet, ids in shared:
            for holder, name in ids if number else ():
                value = getattr(holder, name)
                setattr(holder, name, str(int(value) + IDS) if name == "value" else value + IDS)
            if number:
                packet.timestamp += length
        yield pb.Trace(packet=events).SerializeToString()


_EVENTS = ("track_event", "gpu_render_stage_event", "gpu_counter_event")


def _ids(packet: Any) -> list[tuple[Any, str]]:
    """Where the ids of a packet are."""
    stage = packet.gpu_render_stage_event
    found = [(one, "int_value") for one in packet.track_event.debug_annotations if one.name in SHARED]
    found += [(one, "value") for one in stage.extra_data if one.name in SHARED]
    return [*found, (stage, "event_id")] if packet.HasField("gpu_render_stage_event") else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--slices", type=int, default=1_000_000)
    chosen = parser.parse_args()
    data = chosen.recording.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    multiplied = multiplied_json if data[:1] == b"{" else multiplied_packets
    with gzip.open(chosen.out, "wb", 1) if chosen.out.suffix == ".gz" else chosen.out.open("wb") as file:
        for part in multiplied(data, chosen.slices):
            file.write(part)


if __name__ == "__main__":
    main()
