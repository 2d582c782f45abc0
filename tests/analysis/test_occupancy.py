"""The estimate of occupancy, against the estimates that Kineto wrote into real files."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tracetui.analysis.rates.occupancy import residency
from tracetui.views.device_facts import device_facts

SAMPLES = Path(__file__).parents[2] / "sample_traces"
ESTIMATE = "est. achieved occupancy %"
H200 = {
    "id": 0, "computeMajor": 9, "computeMinor": 0, "maxThreadsPerMultiprocessor": 2048, "warpSize": 32,
    "numSms": 132, "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 233472,
}  # fmt: skip
GEMM = {  # of cuBLAS, with 12 warps and nearly all the shared memory there is
    "registers per thread": 168, "shared memory": 213_000, "grid": [132, 1, 1], "block": [384, 1, 1],
    "blocks per SM": 1.0, "warps per SM": 12.0, ESTIMATE: 0,
}  # fmt: skip


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json.gz")), ids=lambda path: path.name[:-8])
def test_it_equals_the_profilers_own_where_that_gave_one(path):
    file = json.loads(gzip.decompress(path.read_bytes()))
    devices = {device["id"]: device for device in file["deviceProperties"]}
    kernels = [e["args"] for e in file["traceEvents"] if e.get("cat") == "kernel"]
    assert kernels
    for args in kernels:
        found = residency(args, devices[args["device"]])
        assert found is not None
        if args[ESTIMATE]:
            assert int(0.5 + found.occupancy * 100) == args[ESTIMATE], args
        else:  # not estimated, as for more than 48 KiB of shared memory; or less than half a percent
            assert args["shared memory"] > 48 * 1024 or found.occupancy < 0.005, args


@pytest.mark.parametrize(("change", "said"), [
    ({}, "19% (est. by tracetui), 168 registers per thread, 213,000 B shared memory"),
    ({ESTIMATE: 1}, "1% (est.), 168 registers per thread, 213,000 B shared memory"),
    ({ESTIMATE: 18}, "18% (est.), 168 registers per thread, 213,000 B shared memory"),
    ({"grid": [1, 1, 1]}, "0.1% (est. by tracetui), 168 registers per thread, 213,000 B shared memory"),
    ({"registers per thread": None}, "not estimated, 213,000 B shared memory"),
    ({"grid": [1 << 50, 1, 1]}, "not estimated, 168 registers per thread, 213,000 B shared memory"),
    ({"block": [4096, 1, 1]}, "not estimated, 168 registers per thread, 213,000 B shared memory"),
    ({"shared memory": 400_000}, "not estimated, 168 registers per thread, 400,000 B shared memory")
])  # fmt: skip
def test_a_zero_is_no_estimate(change, said):
    facts = dict(
        device_facts({key: value for key, value in (GEMM | change).items() if value is not None}, H200)[0]
    )
    assert facts["occupancy"] == said


def test_what_is_resident_is_bounded_by_the_multiprocessor():
    many = GEMM | {"grid": [5461, 1, 1], "blocks per SM": 41.371212, "warps per SM": 496.454544}
    facts, shown = device_facts(many, H200)
    assert dict(facts)["fits on an SM"] == "1 block, 12 of 64 warps; the grid has 41.4 blocks per SM"
    assert {"blocks per SM", "warps per SM"} <= shown
    # Nothing is known of the device: what the file says stays as it is.
    facts, shown = device_facts(many, {"id": 0})
    assert "fits on an SM" not in dict(facts)
    assert not {"blocks per SM", "warps per SM"} & shown


@pytest.mark.parametrize(("major", "minor", "blocks"), [
    (7, 0, 32), (7, 5, 16), (8, 0, 32), (8, 6, 16), (8, 9, 24), (9, 0, 32), (10, 0, 32), (12, 0, 24)
])  # fmt: skip
def test_the_most_blocks_of_an_architecture(major, minor, blocks):
    tiny = {"registers per thread": 16, "shared memory": 0, "grid": [9999, 1, 1], "block": [32, 1, 1]}
    found = residency(tiny, H200 | {"computeMajor": major, "computeMinor": minor})
    assert (found.blocks, found.warps) == (blocks, blocks)
    assert residency(tiny, H200 | {"warpSize": 64}) is None


def fits(block: int, device: dict[str, Any] | None = None, **kernel: Any) -> tuple[int, int, float] | None:
    """(blocks, warps, occupancy) on an H200, but for what `device` says, of a kernel that asks for this."""
    args = {"registers per thread": 0, "shared memory": 0, "grid": [132 * 64, 1, 1], "block": [block, 1, 1]}
    args |= {name.replace("_", " "): value for name, value in kernel.items()}
    found = residency(args, H200 | (device or {}))
    return (found.blocks, found.warps, found.occupancy) if found else None


PASCAL = {"computeMajor": 6, "sharedMemPerMultiprocessor": 65536}
TURING = {
    "computeMajor": 7, "computeMinor": 5, "maxThreadsPerMultiprocessor": 1024,
    "sharedMemPerMultiprocessor": 65536,
}  # fmt: skip


def test_the_limits_of_blocks_threads_and_registers():
    assert fits(1024) == (2, 64, 1.0)
    assert fits(1025) == (1, 33, 1025 / 2048)  # 33 warps, the last with one thread
    assert fits(32) == (32, 32, 0.5)
    assert fits(1024, TURING) == (1, 32, 1.0)
    assert fits(1056, TURING) is None
    # 48 registers are 1,536 a warp; a quarter of the 65,536 holds 10 of these, a half 21.
    assert fits(64, registers_per_thread=48) == (20, 40, 20 / 32)
    assert fits(64, PASCAL, registers_per_thread=48) == (21, 42, 21 / 32)
    assert fits(64, PASCAL | {"computeMinor": 1}, registers_per_thread=48) == (20, 40, 20 / 32)
    assert fits(64, registers_per_thread=41) == (20, 40, 20 / 32)  # a warp's come in units of 256
    assert fits(64, registers_per_thread=40) == (24, 48, 24 / 32)
    assert fits(1024, registers_per_thread=64) == (1, 32, 0.5)
    assert fits(1024, registers_per_thread=65) is None


def test_the_limits_of_shared_memory():
    # 1,024 bytes are the system's, and blocks get units of 128: (57,344 + 1,024) * 4 = 233,472.
    assert fits(64, shared_memory=57_344) == (4, 8, 4 / 32)
    assert fits(64, shared_memory=57_345) == (3, 6, 3 / 32)
    assert fits(64, shared_memory=232_448) == (1, 2, 1 / 32)
    assert fits(64, shared_memory=232_449) is None
    # Older ones have units of 256 and no reserve.
    assert fits(64, TURING, shared_memory=16_384) == (4, 8, 1 / 4)
    assert fits(64, TURING, shared_memory=16_385) == (3, 6, 3 / 16)
    assert fits(64, TURING) == (16, 32, 1.0)
    assert fits(64, {"computeMajor": 8}, shared_memory=57_345) == (3, 6, 3 / 32)


def test_a_grid_that_is_too_small():
    assert fits(1024, grid=[66, 1, 1]) == (2, 64, 0.25)
    assert fits(1024, grid=[66, 2, 3]) == (2, 64, 1.0)
    assert fits(256, grid=[11, 12, 2]) == (8, 64, 0.25)


@pytest.mark.parametrize(("kernel", "device", "known"), [
    ({}, {"computeMajor": 5}, True), ({}, {"computeMajor": 4}, False), ({}, {"computeMajor": 19}, True),
    ({}, {"computeMajor": 20}, False), ({}, {"numSms": 1}, True), ({}, {"numSms": 0}, False),
    ({"registers_per_thread": -1}, {}, False), ({"registers_per_thread": True}, {}, False),
    ({"registers_per_thread": 16.0}, {}, False), ({"grid": [0, 1, 1]}, {}, False),
    ({"grid": [(1 << 40) - 1, 1, 1]}, {}, True), ({"grid": [1 << 40, 1, 1]}, {}, False),
    ({"grid": "1"}, {}, False), ({"grid": None}, {}, False)
])  # fmt: skip
def test_odd_numbers_give_nothing(kernel, device, known):
    assert (fits(64, device, **kernel) is not None) is known
