"""The man page has every command and option, and is what docs/man.py writes; the commands' other lists."""

import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import click
import pytest
from tests.conftest import module_at
from tests.program import READING

from tracetui.cli.main import COMMANDS, main

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def man() -> ModuleType:
    return module_at(DOCS / "man.py")


def test_every_command_and_option_is_in_it(man):
    """Other versions of click write some of the help differently, so the file is compared by its words."""
    for page in ((DOCS / "tracetui.1").read_text(encoding="utf-8"), man.page()):
        for name in COMMANDS:
            assert f".SS tracetui {name} " in page, "run: python docs/man.py"
            command = main.get_command(click.Context(main), name)
            for option in command.params:
                if isinstance(option, click.Option):
                    assert man.plain(option.opts[-1]) in page, "run: python docs/man.py"
            for line in (command.help or "").splitlines():
                assert man.plain(line.strip("\b ")) in page, "run: python docs/man.py"


def test_every_command_is_in_its_lists():
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    both = (DOCS.parent / "benchmarks" / "same_json.py").read_text(encoding="utf-8")
    for name in set(COMMANDS) - {"open"}:
        assert f"| `tracetui {name}" in page, "it needs a row in the table of commands in docs/commands.md"
    for name in READING:
        assert f"| `{name}` |" in page, "its fields need a row in the table of JSON in docs/commands.md"
        assert f'["{name}"' in both, "it needs a line in COMMANDS of benchmarks/same_json.py"


def test_nothing_in_it_is_taken_for_a_request(man):
    assert man.plain(".json\n'a'\na\\b -x") == "\\&.json\n\\&'a'\na\\eb \\-x"


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_roff_reads_it_without_a_warning():
    words = ["groff", "-man", "-Tutf8", "-ww", str(DOCS / "tracetui.1")]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert "--run-to-end" in ran.stdout.replace("‐", "-").replace("−", "-")
