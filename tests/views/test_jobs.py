"""The jobs that can be asked for a trace, as a table."""

import numpy as np

from tracetui.capture.live.processes import Gpu, Job, Process
from tracetui.views.jobs import jobs_table


def process(pid: int, *gpus: int) -> Process:
    return Process(
        pid, pid, 1, pid, ("python", "train.py"), "me", "/m", 1, None, pid, 3, "a",
        tuple(Gpu(gpu, None, ()) for gpu in gpus),
    )  # fmt: skip


def test_the_gpus_of_a_job_are_those_of_its_processes():
    """Each once, in order."""
    table = jobs_table([Job((process(0, 2), process(1, 0), process(2, 2))), Job((process(3),))], 0.0)
    (shown,) = [column for column in table.columns if column.key == "gpu"]
    assert [shown.text(row) for row in range(2)] == ["0,2", "-"]
    assert shown.fields["gpus"](np.arange(2)) == [[0, 2], []]
