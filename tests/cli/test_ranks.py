"""`tracetui ranks`: its JSON is a contract; whatever it gets, it says in one line what it cannot do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.ranks.jobs import Ranks
from tests.recorded import ROOT

from tracetui.cli import main

DATA = ROOT / "tests" / "data"
JOB = DATA / "ranks" / "ddp_batch_straggler"
RANK = {
    "rank", "file", "host", "offset_ns", "residual_ns", "last", "wait_ns", "transfer_ns", "compute_ns",
    "exposed_communication_ns",
}  # fmt: skip


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["ranks", *map(str, args)])


def test_json():
    result = run(JOB, "--json")
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert [set(rank) >= RANK for rank in said["ranks"]] == [True, True]
    assert [(rank["rank"], rank["last"]) for rank in said["ranks"]] == [(0, 12), (1, 0)]
    assert set(said["collectives"]) == {"matched", "unmatched", "wait_ns", "transfer_ns"}
    assert said["collectives"]["matched"] == 12
    assert said["collectives"]["wait_ns"] == sum(rank["wait_ns"] for rank in said["ranks"])
    assert said["collectives"]["transfer_ns"] == said["ranks"][0]["transfer_ns"]
    assert said["verdict"] == "mixed"
    assert (said["straggler"]["rank"], said["straggler"]["cause"]) == (0, "cpu")
    assert 0.3 < said["straggler"]["share"] < 0.5
    # Rank 1 has twice the batch, and yet rank 0 comes last.
    assert "rank 1 computes for 16.7 ms, the other for 9.47 ms" in said["straggler"]["reason"]
    assert "and yet rank 0 comes last" in said["straggler"]["reason"]


def test_bandwidth():
    (row,) = json.loads(run(JOB, "--json").stdout)["operations"]
    # Three steps of four buckets, in bf16, between two ranks.
    moved = 3 * 2 * (16_778_240 + 13_634_560 + 15_730_688 + 20_974_592)
    assert (row["operation"], row["count"], row["bytes"]) == ("allreduce", 12, moved)
    assert row["algorithm_gb_per_s"] == pytest.approx(moved / row["transfer_ns"])
    assert row["bus_gb_per_s"] == pytest.approx(row["algorithm_gb_per_s"])  # 2 (n - 1) / n is 1
    gathers = json.loads(run(DATA / "ranks" / "async_all_gather_overlap", "--json").stdout)["operations"]
    assert gathers[0]["bus_gb_per_s"] == pytest.approx(gathers[0]["algorithm_gb_per_s"] / 2)


def test_text_and_markdown():
    text = run(JOB).stdout
    assert text.startswith("Rank 0 holds the job back: the other rank waits for it for 39% of the steps.")
    assert max(map(len, text.splitlines())) <= 80
    marked = run(JOB, "--markdown").stdout
    assert "| Rank | Last |" in marked
    assert "Rank 0 holds the job back" in marked


def test_files_may_be_named():
    files = sorted(JOB.glob("*.json.gz"))
    assert json.loads(run(*files, "--json").stdout) == json.loads(run(JOB, "--json").stdout)


@pytest.mark.parametrize(("limit", "code"), [("balance=0.5", 0), ("balance=0.9", 3), ("busy=0.99", 3),
                                             ("exposed=0.99", 3), ("exposed=10%", 0)])  # fmt: skip
def test_limits(limit, code):
    result = run(JOB, "--fail-under", limit)
    assert result.exit_code == code
    assert ("below" in result.stderr) == bool(code)


def test_unknown_limit_is_wrong_usage():
    result = run(JOB, "--fail-under", "speed=1")
    assert result.exit_code == 2
    assert "expected one of busy, exposed, balance" in result.stderr


def one_line(result: Result) -> str:
    assert result.exit_code == 1
    assert result.stdout == ""
    line = result.stderr.rstrip("\n")
    assert "\n" not in line
    return line


def test_nothing_to_compare(tmp_path):
    assert "no such file or directory" in one_line(run(tmp_path / "none"))
    assert "without torch.profiler traces" in one_line(run(tmp_path))
    assert "is one trace" in one_line(run(JOB / "rank0.json.gz"))
    single = DATA / "mlp_eager.json.gz", DATA / "llama_train.json.gz"
    assert "no file says which rank" in one_line(run(*single))
    (tmp_path / "rank0.json").write_text("{}")
    (tmp_path / "rank1.json").write_text("not JSON")
    assert "rank" in one_line(run(tmp_path / "rank0.json", tmp_path / "rank1.json"))


def test_several_jobs_in_a_folder():
    assert re.search(r"of \d+ jobs", one_line(run(DATA / "ranks")))


def test_unreadable_file_and_missing_rank_are_said(tmp_path):
    ranks = Ranks(4)

    def step(number: int) -> None:
        for rank in range(4):
            ranks.compute(rank, 2, 50.0)
        ranks.all_reduce(range(4))

    ranks.steps(3, step)
    files = ranks.write(tmp_path)
    files[1].write_text("nothing")
    files[3].unlink()
    result = run(*files[:3], "--json")
    said = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [rank["rank"] for rank in said["ranks"]] == [0, 2]
    assert said["missing"] == [1, 3]
    assert [Path(one["file"]).name for one in said["unreadable"]] == ["rank1.json"]
    assert said["collectives"]["matched"] == 3
    text = run(*files[:3]).stdout
    assert "Ranks 1, 3 of the job are not here." in text


def test_dumps_alone():
    folder = DATA / "flight_recorder"
    result = run(*(folder / f"stuck_rank{rank}.pickle" for rank in range(2)))
    assert result.stdout.startswith('Rank 1 has not come to nccl:all_reduce 6 of the group "grads".')
    said = json.loads(run(*(folder / f"stuck_rank{rank}.json" for rank in range(2)), "--json").stdout)
    assert (said["straggler"]["rank"], said["straggler"]["cause"]) == (1, "not come")
    assert [(one["description"], one["number"], one["missing"]) for one in said["stuck"]] == [
        ("grads", 6, [1]),
        ("default_pg", 6, [1]),
    ]
    done = run(*(folder / f"done_rank{rank}.pickle" for rank in range(2)))
    assert done.stdout.startswith("Nothing is stuck")
    assert "several dumps are of one rank" in one_line(run(folder))


def test_dumps_beside_traces(tmp_path):
    for path in JOB.glob("*.json.gz"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for rank in range(2):
        dump = DATA / "flight_recorder" / f"stuck_rank{rank}.pickle"
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(dump.read_bytes())
    said = json.loads(run(tmp_path, "--json").stdout)
    assert said["collectives"]["matched"] == 12
    assert said["stuck"][0]["missing"] == [1]
