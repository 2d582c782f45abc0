"""Tasks in several threads: every result in its place, errors come out, and tasks may have tasks."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest

from tracetui.core import threads
from tracetui.core.threads import map_blocks, run_parallel


@pytest.fixture(params=[1, 2, 5])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(threads, "usable_cores", lambda: request.param)
    return int(request.param)


def squares(low: int) -> list[int]:
    return run_parallel([partial(pow, n, 2) for n in range(low, low + 20)])


@pytest.mark.usefixtures("cores")
def test_tasks_may_have_tasks() -> None:
    expected = [[n**2 for n in range(low, low + 20)] for low in range(30)]
    assert run_parallel([partial(squares, low) for low in range(30)]) == expected


@pytest.mark.usefixtures("cores")
def test_an_error_of_a_task_comes_out() -> None:
    with pytest.raises(ZeroDivisionError):
        run_parallel([partial(divmod, 1, n % 7) for n in range(50)])
    assert squares(3)[0] == 9


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("count", [0, 1, 10, 11, 95])
def test_blocks_cover_all_of_it_once(count: int) -> None:
    seen = np.zeros(count, dtype=np.int64)

    def work(some: slice) -> None:
        assert some.stop - some.start <= 10
        seen[some] += 1

    map_blocks(count, work, 10)
    assert seen.tolist() == [1] * count


def test_each_task_waits_for_its_turn(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    monkeypatch.setattr(threads, "yield_to_ui", lambda: turns.append(threading.get_ident()))
    other = threading.Thread(target=squares, args=(0,))
    other.start()
    other.join()
    assert len(turns) == 20
    assert len(set(turns)) <= cores


@pytest.mark.usefixtures("cores")
def test_for_the_main_thread_which_answers_keys_no_task_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[None] = []
    monkeypatch.setattr(threads, "yield_to_ui", lambda: waited.append(None))
    assert squares(3) == [n**2 for n in range(3, 23)]
    assert not waited
