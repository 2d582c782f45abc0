"""Whatever stands in the files of a job, it is summed up, or refused in one line."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.ranks.jobs import Ranks, job

from tracetui.core.errors import TraceError
from tracetui.views.jsonable import dumps
from tracetui.views.ranks import ranks_answer

STRANGE = (
    None, -1, 0, 1, 3, 1 << 40, 1 << 70, -(1 << 63), 1e308, "", "x", "[0, 1]", "[0, 0]", "[" * 500, [], [0],
    [[1]], {}, True, "\x1b[31mred", "[1, 2, 3, ..., 9]", "nan",
)  # fmt: skip
KEYS = (
    "ts", "dur", "name", "cat", "pid", "tid", "Collective name", "In msg nelems", "Group size", "Seq",
    "Process Group Name", "Process Group Ranks", "Src Rank", "Dst Rank", "correlation", "grid", "stream",
    "device", "Global rank start", "Global rank stride",
)  # fmt: skip


def files(tmp_path: Path) -> list[Path]:
    ranks = Ranks(3, hosts=3)

    def step(number: int) -> None:
        for rank in range(3):
            ranks.on_cpu(rank, "load", 40.0)
            ranks.compute(rank, 2, 30.0)
        ranks.all_reduce(range(3))
        ranks.send(0, 1)
        ranks.all_reduce((1, 2), name="1")
        for rank in range(3):
            ranks.wait(rank)

    ranks.steps(3, step)
    return ranks.write(tmp_path)


@pytest.mark.parametrize("seed", range(60))
def test_strange_values(seed, tmp_path):
    dice = random.Random(seed)
    paths = files(tmp_path)
    for path in paths:
        file: dict[str, Any] = json.loads(path.read_text())
        for _ in range(dice.choice((1, 5, 40))):
            event = dice.choice(file["traceEvents"])
            key = dice.choice(KEYS)
            (event if key in event else event["args"])[key] = dice.choice(STRANGE)
        if dice.random() < 0.3:
            file["distributedInfo"] = dice.choice(
                (None, 3, {"rank": "1"}, {"rank": 1 << 50, "world_size": -3}, {"rank": 0, "world_size": 3,
                 "pg_config": [None, {"pg_name": [], "ranks": "[0"}]})
            )  # fmt: skip
        file[dice.choice(("baseTimeNanoseconds", "host_name", "schemaVersion"))] = dice.choice(STRANGE)
        path.write_text(json.dumps(file))
    told = ""
    try:
        found = ranks_answer(job(paths))
    except TraceError as error:
        told = str(error)
    assert "\n" not in told
    if told:
        return
    for text in (found.text(80), found.markdown(), dumps(found.data())):
        assert "\x1b" not in text
    for rank in found.data()["ranks"]:
        assert rank["wait_ns"] >= 0
