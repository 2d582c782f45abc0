"""What is kept of the first screen and the summary equals what is found anew, or is not used."""

import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import Raw
from msgspec.json import decode, encode
from tests.conftest import SAMPLES

import tracetui
from tracetui.analysis.calls.graphs import with_module_lanes
from tracetui.analysis.names.roles import roles
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_table_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.cli.main import main
from tracetui.core.copying import replace
from tracetui.formats.source import open_source
from tracetui.session.recording import Prepared, Recording
from tracetui.trace import load, result_cache, saved
from tracetui.trace.unknown import idle_known
from tracetui.views import overview_cache, summary, summary_cache
from tracetui.views.overview import overviews
from tracetui.views.summary import find_summary

NAMES = sorted(path.name.removesuffix(".json.gz") for path in SAMPLES.glob("*.json.gz"))
FORMS = ([], ["--json"], ["--markdown"])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for traces of any size and age."""
    monkeypatch.delenv("TRACETUI_NO_CACHE", raising=False)
    monkeypatch.setenv("TRACETUI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(saved, "WORTH", 0)
    monkeypatch.setattr("tracetui.formats.source._SETTLED", -(10**12))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def one_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace that no test changes."""
    return Path(shutil.copy(SAMPLES / "mlp_eager.json.gz", tmp_path_factory.mktemp("kept")))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(SAMPLES / "mlp_eager.json.gz", tmp_path / "mlp.json.gz"))


def said(path: Path, *options: str) -> tuple[int, str]:
    """What `tracetui summary` prints, and its exit code."""
    found = CliRunner().invoke(main, ["summary", *options, str(path)])
    return found.exit_code, found.output


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A trace may not be read."""

    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr("tracetui.trace.load", fail)
        yield


@pytest.mark.parametrize("name", NAMES)
def test_all_that_is_kept_of_a_sample_equals_what_is_found(name):
    path = SAMPLES / f"{name}.json.gz"
    trace = load(path, cache=False)
    forms, text = find_summary(Part(trace), True)
    assert summary_cache.kept_summary(str(path), True) == (forms, text)
    assert summary_cache.kept_summary(str(path)) == (forms, "")
    steps = [row.busy_share for row in steps_of(Part(trace)).rows]
    known = [part for part in steps if part is not None]
    assert forms.metrics["step-busy"] == min(known, default=forms.metrics["busy"])

    trace = with_module_lanes(trace)
    *_, last = overview_cache.first_screen(Part(trace))
    assert list(overview_cache.first_screen(Part(trace))) == [last]
    assert last.verdict == verdict_of(Part(trace))
    *_, overview = overviews(Part(trace))
    assert list(overview_cache.cached_overviews(Part(trace))) == [overview] == [forms.document]


@pytest.mark.parametrize("form", FORMS)
def test_the_second_summary_is_the_first_one(form, path, cache, request):
    limits = ["--fail-under", "busy=0.9999", "--fail-under", "device-busy=0.0"]
    alone = said(path, "--no-cache", *form, *limits)
    os.environ.pop("TRACETUI_NO_CACHE", None)  # the option is for the whole process
    assert not list(cache.glob("*"))
    assert said(path, *form, *limits) == alone
    assert said(path, *limits)[0] == 3  # in another form, beside it
    request.getfixturevalue("unread")
    assert said(path, *form, *limits) == alone
    assert alone[0] == 3


def test_json_of_very_many_steps_is_made_anew(path, monkeypatch):
    monkeypatch.setattr(summary, "STEPS_KEPT", 0)
    first = said(path, "--json")
    assert summary_cache.kept_summary(str(path)) is not None
    assert summary_cache.kept_summary(str(path), True) is None
    assert said(path, "--json") == first


def test_a_part_is_never_answered_with_the_whole(path):
    whole = said(path, "--json")
    assert said(path, "--json", "--scope", "step:0")[1] != whole[1]
    results = Part(load(path))
    list(overview_cache.cached_overviews(results))
    part = results.in_scope(step_table_of(results).scope(0))
    assert list(overview_cache.cached_overviews(part)) == list(overviews(part))


def test_not_used_for_another_name_another_file_another_program(path, monkeypatch):
    said(path)
    assert summary_cache.kept_summary(str(path)) is not None
    link = path.with_name("other.json.gz")
    link.symlink_to(path)
    assert said(link)[1].startswith("other.json.gz ")
    with monkeypatch.context() as patch:
        patch.setattr(result_cache, "program_of", lambda *folders: "another")
        assert summary_cache.kept_summary(str(path)) is None
    with monkeypatch.context() as patch:
        patch.setenv("TRACETUI_NO_CACHE", "1")
        assert summary_cache.kept_summary(str(path)) is None
    status = os.stat(path)
    text = bytearray(path.read_bytes())
    text[9] ^= 1  # the system that gzip ran on
    path.write_bytes(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert summary_cache.kept_summary(str(path)) is None
    assert summary_cache.kept_summary("-") is None
    assert summary_cache.kept_summary(str(path.parent / "missing.json")) is None


def test_a_change_of_any_module_that_makes_answers_is_another_program(tmp_path, monkeypatch):
    root = Path(saved.__file__).parent.parent
    modules = [tmp_path / "units.py"]
    for top in ("analysis", "rules", "words", "views", "trace", "formats", "core"):
        modules += {tmp_path / path.parent.relative_to(root) / "x.py" for path in (root / top).rglob("*.py")}
    for module in modules:
        module.parent.mkdir(parents=True, exist_ok=True)
        module.touch()
    monkeypatch.setattr(tracetui, "__file__", str(tmp_path / "__init__.py"))
    assert len(modules) > 8
    for module in modules:
        before = saved.program_of.__wrapped__(result_cache._MAKES_ANSWERS)
        module.write_text("#")
        assert saved.program_of.__wrapped__(result_cache._MAKES_ANSWERS) != before, module


@pytest.mark.parametrize("name", ["train", "train_ddp", "mlp_cuda_graph"])
def test_what_the_first_picture_needs_is_found_once(name, monkeypatch):
    path = str(SAMPLES / f"{name}.json.gz")
    first, again, other = (with_module_lanes(load(path)) for _ in range(3))
    Recording.prepare(first)
    Recording.keep_prepared(first)
    with monkeypatch.context() as patch:
        for made in (
            "analysis.names.roles._has",
            "trace.unrecorded.missing_kernels",
            "trace.unknown.clock_offset",
        ):
            patch.setattr(f"tracetui.{made}", None)
        Recording.prepare(again)
    assert again.derived["drawn"][2] == roles(first) == roles(other)
    assert again.derived["idle_known"] is idle_known(first) is idle_known(other)
    kept = result_cache.load_result(first.reader.source, "prepared", Prepared)
    assert kept == Prepared(len(first), other.span, idle_known(first), roles(first), {})
    for wrong in (replace(kept, slices=1), replace(kept, roles=kept.roles[1:])):
        result_cache.store_result(first.reader.source, "prepared", wrong, Prepared)
        unlike = with_module_lanes(load(path))
        Recording.prepare(unlike)
        assert unlike.derived["roles"] == roles(first)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_bytes_never_answer(seed, one_path, cache, analysed_once):
    path = one_path
    said(path)
    forms = summary_cache.kept_summary(str(path))
    (file,) = cache.glob(f"*{saved.ANSWERS}")
    whole, chance = file.read_bytes(), random.Random(seed)
    text = bytearray(whole)
    if seed % 3:
        for _ in range(chance.choice((1, 1, 2, 30))):
            text[chance.randrange(len(text))] ^= 1 << chance.randrange(8)
    else:
        text = text[: chance.randrange(len(text))] + chance.choice((b"", b"x", b"\0" * 9))
    file.write_bytes(text)
    assert summary_cache.kept_summary(str(path)) is None
    assert result_cache.load_results(open_source(path)) == {}
    assert said(path)[0] == 0  # and it is kept anew
    assert summary_cache.kept_summary(str(path)) == forms


def test_what_could_not_be_so_is_not_used(path):
    trace = load(path)
    source, results = trace.reader.source, Part(trace)
    *_, judged = overview_cache.first_screen(results)
    *_, overview = overviews(results)
    slices = len(trace)
    wrong = re.sub(rb'"event":(\d)', rb'"event":99999999\1', encode(judged))
    assert wrong != encode(judged)
    assert result_cache.store_result(
        source, "judged", decode(wrong, type=overview_cache.FirstScreen), overview_cache.FirstScreen
    )
    assert len(list(overview_cache.first_screen(results))) == 2  # anew
    unlike = summary_cache.KeptSummary(slices + 1, overview, {})
    assert result_cache.store_result(source, "summary", unlike, summary_cache.KeptSummary)
    assert list(overview_cache.cached_overviews(results)) == list(overviews(results))
    assert result_cache.store_result(source, "summary", {"slices": slices}, dict)
    assert list(overview_cache.cached_overviews(results)) == list(overviews(results))


def test_what_is_not_kept(path, cache, monkeypatch):
    source = open_source(path)
    assert not result_cache.store_result(source, "a", "\x1b[31m", str)
    assert not result_cache.store_result(source, "a", float("nan"), float)
    assert not result_cache.store_result(source, "a", (1, 2), list[int])  # it would be another type
    assert not result_cache.store_result(source, "a", "x" * result_cache._LARGEST_ANSWERS, str)
    with monkeypatch.context() as patch:
        patch.setenv("TRACETUI_SERVED", "1")
        assert not result_cache.store_result(source, "a", "b", str)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError))
        assert not result_cache.store_result(source, "a", "b", str)
    assert not list(cache.glob("*"))
    assert result_cache.store_result(source, "a", "b", str)
    assert result_cache.store_result(source, "c", [1], list[int])
    assert {name: decode(raw) for name, raw in result_cache.load_results(source).items()} == {
        "a": "b",
        "c": [1],
    }


def test_room(path, cache, monkeypatch):
    monkeypatch.setattr(result_cache, "_MOST_ANSWERS", 3)
    for n in range(5):
        copy = shutil.copy(path, path.with_name(f"{n}.json.gz"))
        assert result_cache.store_result(open_source(copy), "a", n, int)
    assert len(list(cache.glob("*"))) == 3
    assert result_cache.load_results(open_source(copy)) == {"a": Raw(b"4")}
    saved.clear()
    assert not list(cache.glob("*"))
