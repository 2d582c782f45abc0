"""`compare` over hostile traces, hostile names of files, and a baseline that a stranger wrote."""

import json
import os
from functools import partial
from pathlib import Path

import pytest
from rich.cells import cell_len

from tracetui.session.baselines import INDEX, baselines_folder
from tracetui.views import terminal

from .test_commands import file_name, markdown
from .test_commands import run as run_command
from .texts import KINDS, unsafe, without_colors, write

pytestmark = pytest.mark.usefixtures("analysed_once")
run = partial(run_command, "compare")


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("harmless"), "harmless")


@pytest.mark.parametrize("form", ["text", "terminal", "--markdown", "--json"])
def test_no_control_comes_through(kind, trace_file, harmless, form, monkeypatch):
    if form == "terminal":
        monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    options = [form] if form.startswith("--") else []
    limits = ["--averages", "20", "--fail-over", "launches=0", "--fail-over", "step=1%"]
    for pair in ((trace_file, harmless), (harmless, trace_file), (trace_file, trace_file)):
        code, out, err = run(*map(str, pair), *limits, *options)
        assert code in (0, 3), err
        shown = without_colors(out) if form == "terminal" else out
        assert not unsafe(shown), unsafe(shown)[:5]
        assert not unsafe(err), unsafe(err)[:5]
        if form == "--json":
            json.loads(out)
        if form in ("text", "terminal"):
            widest = max(shown.splitlines(), key=cell_len)
            assert cell_len(widest) <= 80, widest[:200]


def test_markdown_holds(kind, trace_file, harmless):
    """Nothing in a name is markup, and no row breaks out of its table."""
    tokens, _ = markdown(run(str(harmless), str(trace_file), "--markdown", "--averages", "50")[1])
    headings = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
    assert len(headings) == len(set(headings)) <= 4


def test_names_of_files(tmp_path, harmless):
    for kind in KINDS:
        folder = os.fsencode(tmp_path) + b"/" + file_name(kind)
        os.mkdir(folder)
        path = os.fsdecode(os.path.join(folder, file_name(kind)))
        Path(path).write_bytes(harmless.read_bytes())
        for arguments in ((path, str(harmless)), (path, "--step", "1"), (path, str(harmless), "--markdown")):
            code, out, err = run(*arguments)
            assert code == 0, (kind, err)
            assert not unsafe(out), (kind, unsafe(out))
        code, out, err = run(path, "--baseline", "main", "--save")
        assert code == 0, (kind, err)
        assert not unsafe(out), (kind, unsafe(out))
        for arguments in ((path, "--baseline", "main"), ("--list",), ("--list", "--json")):
            code, out, err = run(*arguments)
            assert code == 0, (kind, err)
            assert not unsafe(out), (kind, unsafe(out))
        kept = os.listdir(baselines_folder() / "main")
        assert len(kept) == 2
        assert all(name.isascii() and "/" not in name for name in kept)


@pytest.mark.parametrize("kind", KINDS)
def test_a_baseline_that_a_stranger_wrote(kind, tmp_path, harmless):
    """What baseline.json names is text, and no file outside of its folder is read."""
    text = KINDS[kind]
    folder = tmp_path / "base"
    folder.mkdir()
    kept = folder / "trace-01234567.json"
    kept.write_bytes(harmless.read_bytes())
    outside = tmp_path / "secret-01234567.json"
    outside.write_bytes(harmless.read_bytes())
    (folder / "link-01234567.json").symlink_to(outside)
    for trace, code in (
        (kept.name, 0),
        (text, 1),
        ("../secret-01234567.json", 1),
        (str(outside), 1),
        ("link-01234567.json", 1),
        (["trace"], 1),
        (None, 1),
    ):
        index = {"trace": trace, "meta": text, "source": text, "saved": text, text: text}
        (folder / INDEX).write_text(json.dumps(index))
        found, out, err = run(str(harmless), "--baseline", f"{folder}")
        assert found == code, (trace, err)
        assert not unsafe(out), unsafe(out)
        assert not unsafe(err), unsafe(err)
        assert len(err.splitlines()) == code


@pytest.mark.parametrize("index", [
    "", "{", "[]", "null", '{"trace": 1}', '{"saved": 1e999, "trace": "x"}', "[" * 100_000, "\x00\xff"
])  # fmt: skip
def test_a_broken_index(index, tmp_path, harmless):
    (tmp_path / INDEX).write_text(index)
    code, out, err = run(str(harmless), "--baseline", str(tmp_path))
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "--save" in err
    assert run(str(harmless), "--baseline", str(tmp_path), "--save")[0] == 0
    assert run(str(harmless), "--baseline", str(tmp_path))[0] == 0


def test_what_is_kept_goes_no_other_way(tmp_path, harmless):
    """Keeping anew deletes what was kept before, and nothing else that the index names."""
    victim = tmp_path / "victim-01234567.json"
    victim.write_text("mine")
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "mine.json").write_text("mine")
    for name in (f"../{victim.name}", "mine.json"):
        (folder / INDEX).write_text(json.dumps({"trace": name, "meta": name}))
        assert run(str(harmless), "--baseline", str(folder), "--save")[0] == 0
    assert victim.read_text() == "mine"
    assert (folder / "mine.json").read_text() == "mine"
