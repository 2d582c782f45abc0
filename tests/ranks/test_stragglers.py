"""Who holds a job back, and why: made jobs with one known fault, and recorded ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ranks.jobs import Ranks, job
from tests.ranks.test_match import SHARED, files_of

from tracetui.ranks.job import Job


def made(tmp_path: Path, ranks: Ranks, load: object = None, slow: object = None, steps: int = 4) -> Job:
    """Steps of loading, computing, and an all-reduce of all ranks. `load`, `slow`: by (rank, step), how long
    it loads, and how many times as long its kernels take."""

    def one(number: int) -> None:
        for rank in range(ranks.world):
            ranks.on_cpu(rank, "load", load(rank, number) if load else 30.0)  # type: ignore[operator]
            times = slow(rank, number) if slow else 1.0  # type: ignore[operator]
            ranks.compute(rank, 6, 100.0 * times)
        ranks.all_reduce(range(ranks.world))
        for rank in range(ranks.world):
            ranks.wait(rank)

    ranks.steps(steps, one)
    return job(ranks.write(tmp_path))


def test_loader_of_one_of_64_ranks(tmp_path):
    ranks = Ranks(64, hosts=8)

    def one(number: int) -> None:
        for rank in range(64):
            ranks.on_cpu(rank, "load", 4_000.0 + 700.0 * number if rank == 37 else 30.0 + ranks.noise())
            ranks.compute(rank, 4, 150.0)
        for host in range(8):
            ranks.all_reduce(range(8 * host, 8 * host + 8), name=f"host{host}")
        for lane in range(8):
            ranks.all_reduce(range(lane, 64, 8), name=f"across{lane}")
        for rank in range(64):
            ranks.wait(rank)

    ranks.steps(3, one)
    ahead = {host: (host * 1_000.0, 0.0) for host in range(8)}
    found = job(ranks.write(tmp_path, ahead))
    assert len(found.matched) == 3 * 16
    assert found.straggler is not None
    assert (found.straggler.rank, found.straggler.why.cause) == (37, "loader")
    assert (found.straggler.why.place, found.straggler.why.steps) == ("load", 3)
    assert 0.5 < found.straggler.share < 1
    # The other ranks of its host came last across hosts, because they had waited for it.
    passed = {rank: dict(of) for rank, of in found.blame.passed_on.items() if of}
    assert passed == {rank: {37: 3} for rank in range(32, 40) if rank != 37}


def test_slow_gpu(tmp_path):
    found = made(tmp_path, Ranks(8), slow=lambda rank, step: 1.6 if rank == 5 else 1.0)
    assert found.straggler is not None
    assert (found.straggler.rank, found.straggler.why.cause) == (5, "gpu")
    assert found.straggler.why.ratio == pytest.approx(1.6)
    assert found.balance is not None
    assert found.balance < 0.75


def test_more_work_for_a_gpu(tmp_path):
    ranks = Ranks(4)

    def one(number: int) -> None:
        for rank in range(4):
            if rank == 2:
                ranks.compute(rank, 1, 900.0, grid=512)
            ranks.compute(rank, 6, 100.0)
        ranks.all_reduce(range(4))
        for rank in range(4):
            ranks.wait(rank)

    ranks.steps(4, one)
    found = job(ranks.write(tmp_path))
    assert found.straggler is not None
    assert (found.straggler.rank, found.straggler.why.cause) == (2, "compute")
    assert found.straggler.why.place == "gemm_512"


def test_straggler_that_changes_with_the_step_is_none(tmp_path):
    found = made(tmp_path, Ranks(4), load=lambda rank, step: 2_000.0 if rank == step % 4 else 30.0, steps=8)
    assert found.straggler is None
    assert [rank.last for rank in found.ranks] == [2, 2, 2, 2]
    caused = [rank.caused for rank in found.ranks]
    assert max(caused) < 1.1 * min(caused)
    assert {rank.why.cause for rank in found.ranks if rank.why} == {"loader"}


def test_every_other_step_is_enough(tmp_path):
    found = made(tmp_path, Ranks(4), load=lambda rank, step: 2_000.0 if (rank, step % 2) == (1, 1) else 30.0)
    assert found.straggler is not None
    assert (found.straggler.rank, found.straggler.why.steps, found.straggler.why.of) == (1, 2, 4)


def test_pause_outside_of_all_ops(tmp_path):
    ranks = Ranks(2)

    def one(number: int) -> None:
        for rank in range(2):
            ranks.compute(rank, 6, 100.0)
        ranks.all_reduce(range(2))
        for rank in range(2):
            ranks.wait(rank)
        if number == 2:
            ranks.cpu[1] += 5_000

    ranks.steps(5, one)
    found = job(ranks.write(tmp_path))
    assert found.straggler is not None
    assert (found.straggler.rank, found.straggler.why.cause) == (1, "host")
    assert found.straggler.why.outside
    assert found.straggler.why.spent - found.straggler.why.usual == pytest.approx(5_000_000, rel=0.01)


def test_slow_cpu(tmp_path):
    ranks = Ranks(4)

    def one(number: int) -> None:
        for rank in range(4):
            ranks.compute(rank, 20, 5.0, op=45.0 if rank == 3 else 30.0)
        ranks.all_reduce(range(4))
        for rank in range(4):
            ranks.wait(rank)

    ranks.steps(4, one)
    found = job(ranks.write(tmp_path))
    assert found.straggler is not None
    assert (found.straggler.rank, found.straggler.why.cause) == (3, "cpu")
    assert found.straggler.why.ratio == pytest.approx(1.5, abs=0.1)


def test_slow_stage_of_a_pipeline(tmp_path):
    ranks = Ranks(4)

    def one(number: int) -> None:
        for _ in range(6):
            for stage in range(4):
                if stage:
                    ranks.send(stage - 1, stage)
                ranks.compute(stage, 9 if stage == 2 else 3, 100.0)
        for rank in range(4):
            ranks.wait(rank)

    ranks.steps(3, one)
    found = job(ranks.write(tmp_path))
    assert len(found.matched) == 3 * 3 * 6
    assert found.straggler is not None
    assert (found.straggler.rank, found.straggler.why.cause) == (2, "compute")


def test_balanced_job_has_no_straggler(tmp_path):
    found = made(tmp_path, Ranks(8), load=lambda rank, step: 30.0 + (rank * 7 + step * 5) % 8)
    assert found.straggler is None
    assert found.balance is not None
    assert found.balance > 0.95


@pytest.mark.parametrize(
    ("folder", "rank", "cause", "place"),
    [
        ("ranks/ddp_batch_straggler", 0, "cpu", ""),
        ("ranks4/mesh_late3", 3, "loader", "load"),
        ("ranks4/pipeline_slow_stage2", 2, "compute", ""),
        ("pytorch215/ranks/ddp_late_rank1_kineto", 1, "loader", "load"),
        ("pytorch215/ranks/ddp_late_rank1_cuspy", 1, "loader", "load"),
        ("pytorch215/ranks/ddp_slow_gpu_kineto", 0, "cpu", ""),
        ("pytorch215/ranks/ddp_slow_gpu_cuspy", 1, "cpu", ""),
    ],
)
def test_recorded_stragglers(folder, rank, cause, place):
    found = job(files_of(SHARED / folder))
    assert found.straggler is not None
    assert (found.straggler.rank, found.straggler.why.cause) == (rank, cause)
    assert found.straggler.why.place == place


def test_same_kernels_take_longer_on_a_gpu_that_nobody_waits_for():
    """Rank 1 shares its GPU with matrix products of a side stream, and rank 0, whose CPU is slower, comes
    last."""
    found = job(files_of(SHARED / "pytorch215" / "ranks" / "ddp_slow_gpu_kineto"))
    slow = found.ranks[1]
    assert slow.kernels is not None
    assert slow.kernels > 1.5
    assert [rank.last for rank in found.ranks] == [21, 3]
