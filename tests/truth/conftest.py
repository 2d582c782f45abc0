"""Each trace is read and analysed once for all that is asked of it."""

import pytest


@pytest.fixture(autouse=True)
def reading(read_once: None, analysed_once: None) -> None:
    pass
