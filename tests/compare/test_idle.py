"""Idle time by cause, and what the machine explains of it."""

import pytest

from tracetui.compare.metrics import idle_of


def test_the_machine_explains_no_more_idle_time_than_it_adds():
    class Fake:
        def __init__(self, *idle):
            self.idle = tuple({"dispatch": d, "host": h} for d, h in idle)

    a, b = Fake((800, 200), (810, 210)), Fake((1000, 300), (1010, 310))
    for one, other, sign in ((a, b, 1), (b, a, -1)):
        idle = idle_of(one, other, sign * 150.0)
        assert idle["dispatch"].machine == pytest.approx(sign * 100)
        assert idle["host"].machine == pytest.approx(sign * 50)
