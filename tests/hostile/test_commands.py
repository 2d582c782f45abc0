"""Every command over hostile traces: no character of the file's own reaches the terminal as a control."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt
from markdown_it.token import Token
from tests.program import READING

from tracetui.cli import main
from tracetui.views import terminal

from .texts import KINDS, unsafe, without_colors, write

ASKED = [
    *((name,) for name in READING), ("table", "--group", "shape"), ("table", "--group", "annotation"),
    ("table", "--group", "op"), ("table", "--name-width", "30")
]  # fmt: skip
pytestmark = pytest.mark.usefixtures("analysed_once")


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def markdown(out: str) -> tuple[list[Token], list[Token]]:
    """(all tokens, those within lines) as GitHub reads them: text, code, and tables that no row breaks out
    of."""
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(out)
    inline = [child for token in tokens for child in token.children or []]
    kinds = {token.type for token in [*tokens, *inline]}
    assert not kinds & {"html_inline", "html_block", "link_open", "image", "s_open", "fence", "code_block"}, (
        kinds
    )
    # A row that broke out of its table would stand in a paragraph, with its pipes.
    assert not [t.content for t in inline if t.type == "text" and t.content.startswith("| ")]
    return tokens, inline


@pytest.mark.parametrize("form", ["text", "terminal", "--markdown", "--json"])
def test_no_control_comes_through(kind, trace_file, form, monkeypatch):
    for arguments in ASKED:
        if form == "terminal":
            monkeypatch.setattr(terminal, "is_terminal", lambda: True)
        options = [form] if form.startswith("--") else []
        code, out, err = run(*arguments, str(trace_file), *options)
        assert code == 0, (arguments, err)
        assert out
        shown = without_colors(out) if form == "terminal" else out
        assert not unsafe(shown), (arguments, unsafe(shown)[:5])
        assert not unsafe(err), (arguments, unsafe(err)[:5])
        if form == "--json":
            json.loads(out)


def test_text_fits_its_columns(kind, trace_file):
    from rich.cells import cell_len

    for command in ("summary", "steps", "findings"):
        _, out, _ = run(command, str(trace_file))
        widest = max(out.splitlines(), key=cell_len)
        assert cell_len(widest) <= 80, (command, widest[:200])


@pytest.mark.parametrize("arguments", ASKED, ids=" ".join)
def test_markdown_tables_hold(kind, trace_file, arguments):
    """Tables of full rows, names whole and as code, and nothing else."""
    tokens, inline = markdown(run(*arguments, str(trace_file), "--markdown")[1])
    width = 0
    for token in tokens:
        if token.type == "tr_open":
            width = 0
        width += token.type in ("th_open", "td_open")
    if arguments == ("table",):
        codes = [child.content for child in inline if child.type == "code_inline"]
        names = [row["name"] for row in json.loads(run("table", str(trace_file), "--json")[1])]
        assert [name.split() for name in names] == [code.split() for code in codes]
        assert sum(token.type == "tr_open" for token in tokens) == len(names) + 1


def file_name(kind: str) -> bytes:
    """The text as a name that a file system takes: at most 200 bytes, without NUL and slash."""
    if kind == "surrogate":
        return b"\xff\xfehalf\x9b31m\xc3"
    return KINDS[kind].replace("\0", "").replace("/", "|").encode()[:200].decode("utf-8", "ignore").encode()


@pytest.mark.parametrize("command", ["open", "check", *READING])
def test_paths_are_shown_harmlessly(command, tmp_path):
    trace = write(tmp_path, "harmless").read_bytes()
    for kind in KINDS:
        folder = os.fsencode(tmp_path) + b"/" + file_name(kind)
        os.mkdir(folder)
        for name, content in (
            (b"trace", trace),
            (b"empty", b""),
            (b"other", b'{"no": "trace"}'),
            (b"none", None),
        ):
            path = os.path.join(folder, name + file_name(kind))
            if content is not None:
                Path(os.fsdecode(path)).write_bytes(content)
            code, out, err = run(command, os.fsdecode(path))
            assert code == (0 if content == trace else 1), (kind, name, err)
            assert not unsafe(out), (kind, unsafe(out))
            assert not unsafe(err), (kind, unsafe(err))
            assert len(err.splitlines()) == (0 if content == trace else 1)
        code, out, err = run(command, os.fsdecode(folder))
        assert (code, out, unsafe(err), len(err.splitlines())) == (1, "", [], 1), kind


WRONG = [
    ("{}",), ("--{}",), ("table", "{}", "{}"), ("table", "--{}", "TRACE"), ("table", "--sort", "{}", "TRACE"),
    ("table", "--group", "{}", "TRACE"), ("table", "--limit", "{}", "TRACE"),
    ("table", "--scope", "{}", "TRACE"), ("table", "--scope", "step:{}", "TRACE"),
    ("table", "--scope", "range:{}..2", "TRACE"), ("gaps", "--min", "{}", "TRACE"),
    ("summary", "--fail-under", "{}", "TRACE"), ("summary", "--fail-under", "{}=0.5", "TRACE"),
    ("compare", "{}", "TRACE"), ("compare", "TRACE", "{}"), ("compare", "TRACE", "TRACE", "{}"),
    ("compare", "TRACE", "TRACE", "--fail-over", "{}"), ("compare", "TRACE", "TRACE", "--fail-over", "{}=5%"),
    ("compare", "TRACE", "TRACE", "--fail-over", "step={}"), ("compare", "TRACE", "--step", "{}"),
    ("compare", "TRACE", "--baseline", "{}"), ("compare", "TRACE", "--baseline", "./{}"),
    ("open", "TRACE", "{}"), ("steps", "--annotation", "{}", "--scope", "step:1", "TRACE"), ("demo", "{}"),
    ("completion", "{}"), ("serve", "/none/{}"), ("capture", "{}"), ("capture", "mlp", "--device", "{}"),
    ("capture", "mlp", "--dtype", "{}"), ("capture", "mlp", "--python", "/none/{}"),
    ("capture", "{}:function", "--python", "/none")
]  # fmt: skip


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_arguments_are_echoed_harmlessly(arguments, terminal, tmp_path):
    """Also where click, which passes escape sequences on to a terminal, writes the message."""
    trace = str(write(tmp_path, "harmless"))
    # What is not UTF-8 in an argument arrives as surrogates of its own kind.
    for kind, text in (KINDS | {"surrogate": "\udcffhalf\udc9b31m"}).items():
        given = [a.replace("{}", text.replace("\0", "")).replace("TRACE", trace) for a in arguments]
        result = CliRunner().invoke(main, given, color=terminal)
        assert result.exception is None or isinstance(result.exception, SystemExit), (kind, result.exception)
        assert result.exit_code in (1, 2), (kind, result.output)
        assert not unsafe(result.stdout), (kind, unsafe(result.stdout))
        assert not unsafe(result.stderr), (kind, unsafe(result.stderr), result.stderr)
        assert len(result.stderr) < 6000, kind
