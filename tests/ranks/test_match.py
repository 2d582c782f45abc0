"""Collectives matched over ranks, against a plain script over the raw JSON: equal to the nanosecond."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.ranks import plain
from tests.recorded import ROOT

from tracetui.ranks.match import Matched, matched_of
from tracetui.ranks.summary import RankSummary, summarize

SHARED = ROOT.parent / "shared" / "traces"
JOBS = (
    *(f"ranks/{name}" for name in ("ddp_balanced", "ddp_batch_straggler")),
    *(f"ranks4/{name}" for name in ("mesh_late3", "pipeline_slow_stage2")),
    *(
        f"pytorch215/ranks/{name}_{by}"
        for name in ("ddp_late_rank1", "ddp_slow_gpu", "tp_decode")
        for by in ("kineto", "cuspy")
    ),
    "wild/dlrm_8ranks",
)
OWN = tuple(sorted((ROOT / "tests" / "data" / "ranks").glob("*")))


def files_of(folder: Path) -> list[Path]:
    if not folder.is_dir():
        pytest.skip(f"{folder.name} is not here")
    return sorted(path for path in folder.iterdir() if ".json" in path.name)


def of_job(files: list[Path]) -> tuple[list[RankSummary], Matched]:
    found = sorted((summarize(str(path)) for path in files), key=lambda one: one.rank or 0)
    return found, matched_of(found, [one.rank or 0 for one in found])[0]


def sums(matched: Matched, ranks: list[int]) -> dict[int, dict[str, int]]:
    last, wait, transfer = matched.rank[matched.last], matched.wait, matched.transfer
    return {
        rank: {
            "last": int((last == rank).sum()),
            "wait_ns": int(wait[matched.rank == rank].sum()),
            "transfer_ns": int(transfer[matched.of[matched.rank == rank]].sum()),
        }
        for rank in ranks
    }


@pytest.mark.parametrize("folder", [*(SHARED / job for job in JOBS), *OWN], ids=lambda path: path.name)
def test_collectives_are_those_of_a_plain_script(folder):
    files = files_of(folder)
    expected, left = plain.match([plain.read(path) for path in files])
    found, matched = of_job(files)
    assert expected
    assert (len(matched), matched.unmatched) == (len(expected), left)
    assert sums(matched, [one.rank or 0 for one in found]) == plain.sums(expected)
    calls = sorted((call.rank, call.start, call.end) for one in expected for call in one.calls)
    assert calls == sorted(
        zip(matched.rank.tolist(), matched.start.tolist(), matched.end.tolist(), strict=True)
    )


def test_protobuf_says_the_same_as_json_does():
    """Who comes last does not depend on the format; the recordings are of two runs of one program."""
    folder = SHARED / "pytorch215" / "ranks" / "ddp_late_rank1_pftrace"
    if not folder.is_dir():
        pytest.skip("not here")
    found, matched = of_job(sorted(folder.iterdir()))
    assert len(matched) == 19
    assert set(matched.rank[matched.last].tolist()) == {1}
    assert np.all(np.diff(matched.first) == 2)
    assert [one.world for one in found] == [2, 2]
