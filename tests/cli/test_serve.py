"""`tracetui serve`: what it says and starts. `test_server.py` has real servers and viewers."""

import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tracetui.cli import main, serve

pytest.importorskip("textual_serve")

from tracetui.cli.server import Server

LLAMA = Path(__file__).resolve().parent.parent / "data" / "llama_train.json.gz"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    """What would be served, until Ctrl+C."""
    servers: list[Server] = []

    def run(self: Server, listening: Callable[[], object]) -> int:
        servers.append(self)
        listening()
        return signal.SIGINT

    monkeypatch.setattr(Server, "run", run)
    return servers


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["serve", *words])


def test_a_viewer_is_the_viewer_of_one_trace(served, tmp_path):
    trace = tmp_path / "a 'b'; $(touch x) [bold].json"
    trace.write_bytes(LLAMA.read_bytes())
    result = run(str(trace), "--theme", "light", "--ascii", "--port", "81")
    assert (result.exit_code, result.stderr) == (130, "")
    (server,) = served
    assert server.command[-6:] == ["open", "--theme", "light", "--ascii", "--", str(trace)]
    assert (server.host, server.port, server.title) == ("127.0.0.1", 81, trace.name)
    assert f" on http://127.0.0.1:81/?token={server.token}  (Ctrl+C stops it)\n" in result.stdout


def test_the_options_of_the_viewer_may_come_first(served):
    for theme in ("light", "colour-blind"):
        assert CliRunner().invoke(main, ["--theme", theme, "serve", str(LLAMA)]).exit_code == 130
    assert served[0].command[-5:] == ["open", "--theme", "light", "--", str(LLAMA)]


def test_a_token_can_be_done_without(served):
    result = run(str(LLAMA), "--no-token")
    assert " on http://127.0.0.1:8000/  (" in result.stdout
    assert result.stderr == ""
    result = run(str(LLAMA), "--host", "::1")
    assert " on http://[::1]:8000/?token=" in result.stdout
    assert served[0].token is None
    result = run(str(LLAMA), "--host", "0.0.0.0", "--no-token")
    assert "warning: anyone who can reach 0.0.0.0:8000 can read this trace" in result.stderr
    assert f" on http://{socket.gethostname()}:8000/  (" in result.stdout


def test_names_are_checked(served):
    run(str(LLAMA), "--allow-host", "Box.Example.", "--allow-host", "[fe80::1]:80")
    assert served[0].names >= {"box.example", "fe80::1", "localhost"}
    for wrong in ("", "*", "http://box", "a b", "a:b"):
        result = run(str(LLAMA), "--allow-host", wrong)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1), wrong


@pytest.mark.parametrize(("words", "code"), [(["-"], 2), ([str(LLAMA.parent)], 2), (["/no/such.json"], 1)])
def test_what_cannot_be_served(words, code, served):
    result = run(*words)
    assert result.exit_code == code
    assert len(result.stderr.splitlines()) == 1
    assert not served


def test_without_textual_serve_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    result = run(str(LLAMA))
    assert result.exit_code == 1
    assert result.stderr.endswith("-m pip install textual-serve\n")


def test_the_last_line_offers_what_a_viewer_has(monkeypatch):
    from tracetui.tui.footer import Footer

    class Wide(Footer):
        room = 500

    def offered() -> set[str]:
        return {action for _, _, action in Wide().shown}

    everything = offered()
    monkeypatch.setenv("TRACETUI_SERVED", "1")
    assert everything - offered() == {"capture", "compare"}
