"""Files are summed up by several processes as by one, whatever becomes of a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.recorded import ROOT

from tracetui.ranks import pool
from tracetui.ranks.job import job_of
from tracetui.ranks.summary import RankSummary
from tracetui.views.ranks import job_json

JOB = ROOT / "tests" / "data" / "ranks"
FILES = sorted(str(path) for path in JOB.glob("*/rank?.json.gz"))


def told(found: dict[str, pool.Found]) -> object:
    files = [one for path, one in found.items() if "tp_dtensor" in path and isinstance(one, RankSummary)]
    return job_json(job_of(files))


def test_several_processes_say_what_one_does(tmp_path):
    broken = tmp_path / "rank7.json"
    broken.write_text("{")
    paths = [*FILES, str(broken), str(tmp_path / "none.json")]
    alone, together = pool.summaries(paths, processes=1), pool.summaries(paths, processes=3)
    assert list(alone) == list(together) == paths
    assert told(alone) == told(together)
    for path in paths[-2:]:
        assert isinstance(alone[path], str)
        assert alone[path] == together[path]


def test_process_that_ends_costs_no_file(monkeypatch):
    def gone() -> subprocess.Popen[bytes]:
        code = "import sys; sys.stdin.buffer.read(1)"
        return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    monkeypatch.setattr(pool, "_child", gone)
    found = pool.summaries(FILES, processes=2)
    assert list(found) == FILES
    assert all(isinstance(one, RankSummary) for one in found.values())


def test_progress_ends_with_all_bytes():
    seen: list[tuple[int, int]] = []
    pool.summaries(FILES[:3], lambda done, total: seen.append((done, total)), processes=1)
    total = sum(Path(path).stat().st_size for path in FILES[:3])
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
