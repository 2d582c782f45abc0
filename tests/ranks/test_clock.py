"""Clocks that were shifted by hand are found again, within 50 µs; a file of another run is not taken in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.ranks.jobs import Ranks, job, shifted
from tests.ranks.test_match import SHARED, files_of
from tests.recorded import ROOT

from tracetui.core.errors import TraceError
from tracetui.ranks.summary import summarize

OWN = ROOT / "tests" / "data" / "ranks"
WITHIN = 50_000
AHEAD = ((-250_000, 0.0), (3_600_000_000_000, 0.0), (-5_000_000, -4e-4))


@pytest.mark.parametrize(("ns", "drift"), AHEAD)
@pytest.mark.parametrize(
    ("folder", "moved"),
    [
        (OWN / "ddp_batch_straggler", {1}),
        (OWN / "moe_all_to_all", {1}),
        (OWN / "async_all_gather_overlap", {0}),
        (SHARED / "ranks4" / "mesh_late3", {2, 3}),
        (SHARED / "ranks4" / "pipeline_slow_stage2", {1, 3}),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_shifted_clock_is_found(folder, moved, ns, drift, tmp_path):
    files = files_of(folder)
    paths = [shifted(path, tmp_path / path.name.removesuffix(".gz"), ns, drift) if i in moved else path
             for i, path in enumerate(files)]  # fmt: skip
    found = job(paths)
    assert not found.strangers
    assert len(found.matched) == len(job(files).matched)
    for rank, path in zip(found.ranks, files, strict=True):
        true = summarize(str(path)).calls.end
        reference = ns if 0 in moved else 0  # all times are on the clock of rank 0
        away = np.abs(rank.clock.on(rank.file.calls.end) - true - reference)
        assert away.max() < WITHIN + abs(drift) * 1e8 * (0 in moved)
        assert rank.residual is not None
        assert rank.residual < WITHIN
        if rank.rank in moved and 0 not in moved:
            assert abs(rank.clock.offset + ns) < WITHIN + abs(drift) * 1e9


def test_files_of_two_runs_are_not_of_one_job():
    one = OWN / "tp_dtensor" / "rank0.json.gz", OWN / "async_all_gather_overlap" / "rank1.json.gz"
    with pytest.raises(TraceError, match="not of one job"):
        job(list(one))


def test_stranger_is_left_out():
    own, other = OWN / "moe_all_to_all", OWN / "tp_dtensor"
    found = job([own / "rank0.json.gz", own / "rank1.json.gz", other / "rank1.json.gz"])
    assert [(Path(path).parent.name, why) for path, why in found.strangers] == [("tp_dtensor", "rank")]
    assert len(found.matched) == 18


def test_hosts_with_clocks_of_their_own(tmp_path):
    ranks = Ranks(8, hosts=4)

    def step(number: int) -> None:
        for rank in range(8):
            ranks.compute(rank, 3, 100.0 + ranks.noise(200))
        ranks.all_reduce(range(8))
        for rank in range(8):
            ranks.wait(rank)

    ranks.steps(40, step)
    ahead = {1: (12_345.0, 0.0), 2: (-700.0, 2e-3), 3: (1e9, -1e-5)}
    true = [summarize(str(path)).calls.end for path in ranks.write(tmp_path)]
    found = job(ranks.write(tmp_path, ahead))
    assert len(found.matched) == 40
    for rank, ends in zip(found.ranks, true, strict=True):
        assert rank.residual is not None
        assert rank.residual < 10_000
        assert np.abs(rank.clock.on(rank.file.calls.end) - ends).max() < WITHIN
    drifts = [found.ranks[2 * host].clock.drift for host in range(4)]
    assert drifts == pytest.approx([0.0, 0.0, -2e-3, 0.0], abs=2e-4)
    assert found.ranks[2].clock == found.ranks[3].clock
