"""No session uses what the user's has remembered."""

import pytest


@pytest.fixture(autouse=True)
def remembered_here(state: object) -> None:
    pass
