"""The views: each answers one question about a part of a trace. Commands and the API are made from these.

To add one, write a function that takes a part and the view's options and returns an `Answer`, and list it in
`_OURS`; another package names a `View` in an entry point. Importing this module imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tracetui.analysis.part import Part
    from tracetui.core.plugins import Plugin
    from tracetui.views.answer import Answer


class View(NamedTuple):
    """A view."""

    name: str
    """One word, as in `tracetui view NAME`."""
    title: str
    """One line about it."""
    make: Callable[..., Answer]
    """From a part of a trace and the view's options, as keyword arguments."""


def _ours(name: str, title: str, where: str) -> View:
    """A view whose `make` is imported when it is first needed. `where`: "module:function" of this folder."""

    def make(part: Part, **options: Any) -> Answer:
        module, _, function = where.partition(":")
        found: Answer = getattr(import_module(f"{__package__}.{module}"), function)(part, **options)
        return found

    return View(name, title, make)


_OURS = (
    _ours("table", "Print the averages table, as PyTorch does.", "pytorch_table:averages_answer"),
    _ours("gaps", "Print the gaps: when a GPU was idle, and why.", "gaps_text:gaps_answer"),
    _ours("summary", "Print what is in a trace and where to look.", "summary:summary_answer"),
    _ours("steps", "Print one row per step.", "steps:steps_answer"),
    _ours("findings", "Print what to notice, and what to try.", "findings_text:findings_answer"),
    _ours(
        "efficiency",
        "Print achieved TFLOP/s and GB/s as a share of the peak.",
        "efficiency_text:efficiency_answer",
    ),
    _ours("whatif", "Print what each fix would be worth.", "whatif:whatif_answer"),
)


class Views(Mapping[str, View]):
    """All views by name, those of other packages last."""

    def __getitem__(self, name: str) -> View:
        return OURS[name] if name in OURS else _of_plugins()[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*OURS, *_of_plugins()))

    def __len__(self) -> int:
        return len(OURS) + len(_of_plugins())

    def __repr__(self) -> str:
        width = max(map(len, self))
        return "\n".join(f"{name:<{width}}  {view.title}" for name, view in self.items())


OURS = {view.name: view for view in _OURS}
VIEWS = Views()


def _of_plugins() -> dict[str, View]:
    from tracetui.core.plugins import attempt, failed, loaded

    found: dict[str, View] = {}
    for plugin, view in loaded("views"):
        if plugin.name in OURS:
            failed(plugin, "a view of this name exists")
        elif checked := attempt(plugin, partial(_checked, plugin, view)):
            found[plugin.name] = checked
    return found


def _checked(plugin: Plugin, view: View) -> View:
    """The view of another package."""
    from tracetui.core.safe_text import plain

    _, title, make = view
    return View(plugin.name, plain(title, 80), partial(_made, plugin, make))


def _made(plugin: Plugin, make: Callable[..., Answer], part: Part, **options: Any) -> Answer:
    """What it says, safe to show. Whatever happens in it is a `TraceError`."""
    from msgspec.json import decode

    from tracetui.core.copying import replace
    from tracetui.core.errors import TraceError
    from tracetui.core.plugins import failed
    from tracetui.core.safe_text import plain
    from tracetui.views.jsonable import dumps
    from tracetui.views.lines import STYLES, Line

    def guarded(form: Callable[[], Any]) -> Any:
        try:
            return form()
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            failed(plugin, error)
            raise TraceError(
                f"{plugin.what} failed: {type(error).__name__}: {plain(str(error), 200)}"
            ) from None

    def lines(width: int) -> str | list[Line]:
        said = answer.lines(width)
        if isinstance(said, str):
            return _safe_lines(said)
        return [[(plain(text), style if style in STYLES else "") for text, style in line] for line in said]

    def made() -> Answer:
        found = make(part, **options)
        return replace(found, name=plugin.name, notes=tuple(map(plain, found.notes)))

    answer: Answer = guarded(made)
    return replace(
        answer,
        data=lambda: guarded(lambda: _safe(decode(dumps(answer.data())))),
        markdown=lambda: guarded(lambda: _safe_lines(answer.markdown())),
        lines=lambda width: guarded(lambda: lines(width)),
        choose=lambda data: guarded(lambda: answer.choose(data)),
    )


def _safe_lines(text: str) -> str:
    """A text of several lines, each safe to show."""
    from tracetui.core.safe_text import plain

    return "".join(f"{plain(line)}\n" for line in text.splitlines())


def _safe(value: Any) -> Any:
    """JSON-ready values whose texts are safe to show."""
    from tracetui.core.safe_text import plain

    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(str(key)): _safe(one) for key, one in value.items()}
    return [_safe(one) for one in value] if isinstance(value, list) else value
