"""Expressions that are compiled later do what compiled ones do, and all of the program's can be compiled."""

import importlib
import pkgutil
import re

import pytest

import tracetui.analysis.names
from tracetui.core.patterns import _Pattern, pattern
from tracetui.formats.chrome_json import recover_text, repair_event


def test_it_is_compiled_on_first_use():
    late, wrong = pattern(r"(a+)(b)?", re.IGNORECASE), pattern("(")
    assert late.match("xAAb", 1).groups() == ("AA", "b")
    assert late.sub("-", "aabAc") == "--c"
    assert late.pattern == "(a+)(b)?"
    assert pattern(b"a").search(b"ba") is not None
    with pytest.raises(re.error):
        wrong.search("x")


def test_all_can_be_compiled():
    folder = tracetui.analysis.names
    modules = [
        importlib.import_module(f"{folder.__name__}.{module.name}")
        for module in pkgutil.iter_modules(folder.__path__)
    ]
    every = [
        value for module in (*modules, recover_text, repair_event) for value in vars(module).values()
        if isinstance(value, _Pattern)
    ]  # fmt: skip
    assert len(every) > 50
    for one in every:
        assert one.flags >= 0
