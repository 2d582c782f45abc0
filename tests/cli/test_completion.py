"""Tab completion: what a word is completed to, and the script in a real bash."""

import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from tracetui.cli import main

FILE = ["file:"]


def completed(*words: str) -> list[str]:
    """What the last word is completed to; `file:` where the shell completes a path."""
    found = ShellComplete(main, {}, "tracetui", "_TRACETUI_COMPLETE").get_completions(
        list(words[:-1]), words[-1]
    )
    return ["file:" if item.type == "file" else item.value for item in found]


@pytest.mark.parametrize(("words", "found"), [
    (["su"], ["summary"]), (["com"], ["compare", "completion"]), (["compare", "x"], FILE),
    (["compare", "--fail"], ["--fail-over"]), (["t"], ["table", "t one.json", "traces/", "tt.json.gz"]),
    (["tt"], FILE), (["traces/"], FILE), (["--as"], ["--ascii"]), (["tt.json.gz", "--as"], ["--ascii"]),
    (["nonsense", "--as"], ["--ascii"]), (["demo", "attention_s"], ["attention_sdpa"]),
    (["demo", "--theme", "li"], ["light"]), (["--theme", "li"], ["light"]), (["open", ""], FILE),
    (["summary", "x"], FILE), (["capture", "m"], ["matmul_add", "mlp"]), (["capture", "script"], FILE),
    (["capture", "mlp", "--python", ""], FILE), (["capture", "mlp", "--dtype", "b"], ["bf16"]),
    (["completion", ""], ["bash", "zsh", "fish"])
])  # fmt: skip
def test_a_word_is_completed(words, found, tmp_path, monkeypatch):
    (tmp_path / "traces").mkdir()
    for name in ("tt.json.gz", "tt.meta.json", "t one.json", "text.txt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert completed(*words) == [word for word in found if " " not in word]  # those would need quotes


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_for_tracetui_whatever_started_it(shell):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_TRACETUI_COMPLETE={shell}_complete" in result.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes(tmp_path):
    program = tmp_path / "tracetui"
    program.write_text(f"#!{sys.executable}\nfrom tracetui.cli import main\nmain()\n")
    program.chmod(0o755)
    script = CliRunner().invoke(main, ["completion", "bash"]).stdout
    ask = f"""{script}
    COMP_WORDS=(tracetui demo llm); COMP_CWORD=2
    _tracetui_completion {program}; echo "${{COMPREPLY[@]}}" """
    ran = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert ran.stdout == "llm_decode\n"


@pytest.mark.parametrize(
    "words", ["tracetui t", "tracetui demo att", "tracetui capture m", "tracetui open x"]
)
def test_tab_imports_nothing_heavy(words):
    code = (
        "import atexit, sys\n"
        "heavy = {'numpy', 'textual', 'rich', 'torch', 'msgspec', 'asyncio'}\n"
        "atexit.register(lambda: print('heavy:', *heavy & set(sys.modules)))\n"
        "from tracetui.cli import main\nmain(prog_name='tracetui')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_TRACETUI_COMPLETE": "bash_complete"},
        capture_output=True, text=True, check=False
    )  # fmt: skip
    assert ran.stdout.splitlines()[-1] == "heavy:", ran.stderr
    assert len(ran.stdout.splitlines()) > 1
