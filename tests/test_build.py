"""The libraries in C are built in a folder of their own, or the true reason is told why they are not."""

import shutil
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.conftest import module_at

ROOT = Path(__file__).resolve().parents[1]
has_compiler = pytest.mark.skipif(
    sys.platform == "win32" or not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler"
)


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """hatch_build.py, without hatchling, which only builds have."""
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = type("Interface", (), {"__class_getitem__": lambda kind, of: kind})  # type: ignore[attr-defined]
    for name in (
        "hatchling",
        "hatchling.builders",
        "hatchling.builders.hooks",
        "hatchling.builders.hooks.plugin",
    ):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    monkeypatch.delenv("TRACETUI_NATIVE", raising=False)
    return module_at(ROOT / "hatch_build.py")


@pytest.fixture
def tree(tmp_path: Path, build: ModuleType) -> Path:
    """As many sources as there are, which take no time to compile."""
    for source in build.SOURCES:
        (tmp_path / source).parent.mkdir(parents=True)
        (tmp_path / source).write_text("unsigned source(void) { return SOURCE; }\n")
    return tmp_path


def built(build: ModuleType, tree: Path, version: str) -> tuple[Any, dict[str, Any], list[str]]:
    hook, warned = build.Hook(), list[str]()
    hook.root, hook.app = str(tree), SimpleNamespace(display_warning=warned.append)
    data: dict[str, Any] = {"force_include": {}, "artifacts": [], "pure_python": True}
    hook.initialize(version, data)
    return hook, data, warned


def files(tree: Path) -> list[str]:
    return sorted(path.name for path in tree.rglob("*") if path.is_file())


@has_compiler
def test_a_wheel_leaves_the_source_as_it_is(build, tree):
    for source in build.SOURCES:
        shutil.copy(ROOT / source, tree / source)
    before = files(tree)
    hook, data, warned = built(build, tree, "standard")
    assert (files(tree), warned, data["pure_python"]) == (before, [], False)
    places = {place: Path(path) for path, place in data["force_include"].items()}
    assert [place.rpartition("/")[0] for place in places] == [
        str(Path(source).parent.relative_to("src")) for source in build.SOURCES
    ]
    assert all(path.stat().st_size > 1000 for path in places.values())
    hook.finalize("standard", data, "")
    assert not any(path.exists() for path in places.values())


@has_compiler
def test_an_editable_installation_has_them_beside_the_source_however_many_build_at_once(build, tree):
    warned: list[str] = []
    threads = [
        threading.Thread(target=lambda: warned.extend(built(build, tree, "editable")[2])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warned == []
    for source in build.SOURCES:
        assert (tree / source.replace(".c", f".native{build.SUFFIX}")).stat().st_mode & 0o444 == 0o444
    assert len(files(tree)) == 2 * len(build.SOURCES)


@has_compiler
def test_a_source_that_cannot_be_written_to_is_said(build, tree, monkeypatch):
    def refused(*given: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(build.os, "replace", refused)
    _, data, (warned,) = built(build, tree, "editable")
    assert warned.endswith(f": cannot write to {(tree / build.SOURCES[0]).parent}: Permission denied")
    assert (data["pure_python"], len(files(tree))) == (True, len(build.SOURCES))


@pytest.mark.skipif(sys.platform == "win32", reason="a compiler of our own")
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("#!/bin/sh\nexec sleep 100", "took more than 0.5 s"), ("#!/bin/sh\ncat; exit 1", "no reason given"),
        ("#!/bin/sh\nexit 0", "no reason given"),
        ("#!/bin/sh\nwhile [ $1 != -o ]; do shift; done; : > $2", "no reason given"),
        ("\x7fELF", "Exec format error"), ("#!/nowhere", "No such file or directory")
    ],
    ids=["hangs", "waits for input", "makes nothing", "makes an empty file", "cannot be run", "has no shell"]
)  # fmt: skip
def test_what_is_wrong_with_a_compiler(script, why, build, tree, monkeypatch):
    compiler = tree / "broken"
    compiler.write_text(script)
    compiler.chmod(0o755)
    monkeypatch.setattr(build, "PATIENCE", 0.5)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setattr(shutil, "which", lambda name: name if name == str(compiler) else None)
    _, data, (warned,) = built(build, tree, "standard")
    assert warned.endswith(f"more slowly: {compiler} failed: {why}")
    assert (data["pure_python"], data["force_include"]) == (True, {})


@has_compiler
def test_where_one_compiler_is_broken_another_is_taken(build, tree, monkeypatch):
    for broken in ("false", "true", str(tree)):
        monkeypatch.setenv("CC", broken)
        _, data, warned = built(build, tree, "standard")
        assert (warned, len(data["force_include"])) == ([], len(build.SOURCES))


@pytest.mark.skipif(sys.platform == "win32", reason="a compiler of our own")
def test_why_there_are_none(build, tree, monkeypatch):
    monkeypatch.setenv("PATH", str(tree))
    monkeypatch.setenv("CC", "nothing")
    *_, (warned,) = built(build, tree, "standard")
    assert warned.endswith("more slowly: there is no C compiler")
    compiler = tree / "cc"
    text = "In file included from x.c:1\nx.c:1:9: fatal error: stdint.h: No such file\ncompilation ended."
    compiler.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit 1\n")
    compiler.chmod(0o755)
    _, data, (warned,) = built(build, tree, "standard")
    assert warned.endswith("more slowly: cc failed: x.c:1:9: fatal error: stdint.h: No such file")
    assert (data["pure_python"], data["force_include"]) == (True, {})
