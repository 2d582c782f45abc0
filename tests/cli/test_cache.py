"""`tracetui cache`, and `--no-cache`."""

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.conftest import SAMPLES
from tests.program import READING

from tracetui.cli.main import COMMANDS, main
from tracetui.trace import load, saved


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.fixture
def kept(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two traces that are kept, the second used last."""
    monkeypatch.setattr("tracetui.formats.source._SETTLED", -(10**12))
    paths = [tmp_path / name for name in ("one.json.gz", "tw\x1bo.json.gz")]
    for age, path in enumerate(paths):
        shutil.copy(SAMPLES / "linear.json.gz", path)
        assert saved.save(load(path))
        os.utime(saved.file_of(str(path)), (1e9 + age, 1e9 + age))
    return paths


def test_what_is_kept(kept, cache):
    sizes = [file.stat().st_size for file in cache.iterdir()]
    printed = run("cache")
    lines = printed.stdout.splitlines()
    assert printed.exit_code == 0
    assert [str(kept[1]).replace("\x1b", "␛") in lines[0], str(kept[0]) in lines[1]] == [True, True]
    assert lines[0].split()[3:5] == ["d", "ago"]
    assert lines[-1].startswith("2 traces, ")
    assert lines[-1].endswith(str(cache))
    found = json.loads(run("cache", "--json").stdout)
    assert found["total_bytes"] == sum(sizes)
    assert found["limit_bytes"] == saved.limit()
    assert found["enabled"] is True
    assert [t["path"] for t in found["traces"]] == [str(p).replace("\x1b", "␛") for p in reversed(kept)]
    assert [t["used_s"] for t in found["traces"]] == [1e9 + 1, 1e9]
    assert {t["state"] for t in found["traces"]} == {"current"}


def test_what_can_no_longer_be_used(kept, cache):
    kept[0].unlink()
    kept[1].touch()
    (cache / "x.trace").write_bytes(b"nonsense")
    found = json.loads(run("cache", "--json").stdout)
    assert sorted((t["path"] or "", t["state"]) for t in found["traces"]) == sorted(
        [("", "damaged"), (str(kept[0]), "gone"), (str(kept[1]).replace("\x1b", "␛"), "changed")]
    )
    text = run("cache").stdout
    assert all(words in text for words in ("file is gone", "has changed", "unreadable"))


def test_clearing(kept, cache):
    (cache / "other.txt").write_text("not ours")
    size = sum(file.stat().st_size for file in cache.glob("*.trace"))
    found = json.loads(run("cache", "--clear", "--json").stdout)
    assert (found["freed_bytes"], found["traces"], found["total_bytes"]) == (size, [], 0)
    assert [file.name for file in cache.iterdir()] == ["other.txt"]
    assert run("cache", "--clear").stdout.startswith("0 B deleted\n0 traces")


def test_nothing_is_kept(cache, monkeypatch):
    assert run("cache").stdout.startswith("0 traces, 0 B of at most")
    monkeypatch.setenv("TRACETUI_NO_CACHE", "1")
    assert run("cache").stdout.endswith("TRACETUI_NO_CACHE is set: the cache is not used\n")
    cache.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.delenv("TRACETUI_NO_CACHE")
    assert run("cache").stdout.endswith("this folder cannot be written to: nothing is cached\n")


@pytest.mark.parametrize("command", [*READING, "check", "open"])
def test_commands_keep_what_they_read_and_without_cache_do_not(command, tmp_path, cache, monkeypatch):
    monkeypatch.setattr("tracetui.formats.source._SETTLED", -(10**12))
    path = shutil.copy(SAMPLES / "linear.json.gz", tmp_path)
    monkeypatch.setattr(saved, "_threads", [])
    monkeypatch.setenv("TRACETUI_NO_CACHE", "")
    assert run(command, str(path), "--no-cache").exit_code == 0
    assert saved._threads == []
    assert not cache.exists()
    monkeypatch.setenv("TRACETUI_NO_CACHE", "")
    assert run(command, str(path)).exit_code == 0
    for thread in saved._threads:
        thread.join(60)
    assert len(list(cache.glob("*.trace"))) == 1


def test_every_command_that_reads_traces_has_the_option():
    for name in {*COMMANDS} - {"demo", "capture", "run", "attach", "env", "completion", "cache"}:
        assert "--no-cache" in run(name, "--help").stdout, name
