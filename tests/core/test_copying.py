"""Copies with other values, of both kinds of frozen objects."""

from dataclasses import dataclass

import pytest
from msgspec import Struct

from tracetui.core.copying import replace


@dataclass(frozen=True)
class Data:
    x: int
    y: int = 2


class Record(Struct, frozen=True):
    x: int
    y: int = 2


@pytest.mark.parametrize("kind", [Data, Record])
def test_a_copy_is_of_its_kind_and_the_original_stays(kind):
    one = kind(1)
    assert replace(one, y=5) == kind(1, 5)
    assert one == kind(1, 2)
    with pytest.raises(TypeError):
        replace(one, z=1)


@pytest.mark.parametrize("other", [{"x": 1}, (1, 2), "text", Data, Record])
def test_others_are_refused(other):
    with pytest.raises(TypeError):
        replace(other, x=2)
