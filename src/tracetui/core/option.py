"""An option: what the command line, a form and the checks are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = int | float | str | bool | None
"""The value of a workload's option. None means "not given" (only if the default is None)."""


def flag_of(name: str) -> str:
    """As it is on the command line."""
    return "--" + name.replace("_", "-")


@dataclass(frozen=True)
class Option:
    """An option of every capture (a field of `CaptureOptions`), or of one workload (in `Workload.params`).

    The command line, the form and the checks are made from these.
    """

    name: str
    """As in Python; `--name` with dashes on the command line."""
    default: Value
    help: str
    """A phrase, for the form."""
    choices: tuple[str, ...] = ()
    """The allowed words."""
    free: bool = False
    """Any text; `choices` are suggestions."""

    # Of the options of every capture:
    least: int | None = None
    """The smallest number. Sizes of workloads are always above 0."""
    targets: tuple[str, ...] = ("workload", "callable", "script", "module")
    """The kinds of target that it applies to; the form omits it for others."""
    label: str = ""
    """Its label in the form; "": not in the form."""
    sentence: str | None = None
    """For `--help`; None: `help` as a sentence."""
    names: tuple[str, ...] = ()
    """Its spellings on the command line, if not `--name`."""
    seconds: bool = False
    """A time, such as 500ms or 2s."""
    metavar: str | None = None
    envvar: str | None = None

    @property
    def flag(self) -> str:
        return flag_of(self.name)

    @property
    def kind(self) -> str:
        """ "flag", "time", "text", "choice" or "number"."""
        if isinstance(self.default, bool):
            return "flag"
        if self.seconds:
            return "time"
        return "text" if self.free else "choice" if self.choices else "number"
