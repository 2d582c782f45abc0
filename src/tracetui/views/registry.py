"""The views: each answers one question about a part of a trace. Its command, its pane and the API's method
are made from what is declared here.

To add one, write a module with a function that takes a part and the view's options and returns an `Answer`,
and declare it in `_OURS`; another package names a `View` in an entry point. Importing this module imports
none of them, and nothing that `--help` would have to wait for.
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


class ViewOption(NamedTuple):
    """An option of a view's command, and an argument of its `make`. A number is 0 or more, if its default is
    one; True or False makes a flag, a word or None a text."""

    name: str
    """As in Python."""
    default: int | str | bool | None
    help: str
    flag: str = ""
    """Its spelling on the command line, if not `--name`."""
    choices: tuple[str, ...] = ()
    least: int = 0
    """The smallest number."""
    parse: Callable[[str], Any] | None = None
    """What becomes of a text. Raises ValueError."""
    metavar: str | None = None


class View(NamedTuple):
    """A view."""

    name: str
    """One word, as in `tracetui view NAME`."""
    title: str
    """One line about it."""
    make: Callable[..., Answer]
    """From a part of a trace and the view's options, as keyword arguments."""
    pane: str = ""
    """What its pane shows, for the help; "" if it has none. The pane has the name of the view."""
    is_document: bool = False
    """Whether the pane has the answer's documents, whose lines lead somewhere, not its table or its text."""
    letter: str = ""
    """The key of the pane; "" for a number, or for any free letter where it is another package's."""
    options: tuple[ViewOption, ...] = ()
    about: str = ""
    """More for the command's help."""


def _ours(name: str, title: str, where: str, *options: ViewOption, **more: Any) -> View:
    """A view whose `make` is imported when it is first needed. `where`: "module:function" of this folder."""

    def make(part: Part, **given: Any) -> Answer:
        module, _, function = where.partition(":")
        found: Answer = getattr(import_module(f"{__package__}.{module}"), function)(part, **given)
        return found

    return View(name, title, make, options=options, **more)


SORT_CHOICES = (
    "self_cuda_time_total", "self_cpu_time_total", "cuda_time_total", "cpu_time_total", "cuda_time",
    "cpu_time", "count", "name", "self_cuda_memory_usage", "self_cpu_memory_usage", "cuda_memory_usage",
    "cpu_memory_usage",
)  # fmt: skip


def _column(value: str) -> str:
    """A column of PyTorch's table, which has other names for some."""
    name = {"calls": "count"}.get(value.lower(), value.lower())
    name = name.replace("device", "cuda").replace("xpu", "cuda")
    if name not in SORT_CHOICES:
        raise ValueError(f"expected one of {', '.join(SORT_CHOICES)}; got {value!r}")
    return name


def _time(value: str) -> int:
    """In nanoseconds."""
    from tracetui.core.units import parse_duration

    return parse_duration(value)


_OURS = (
    _ours(
        "table",
        "Print the averages table, as PyTorch does.",
        "pytorch_table:averages_answer",
        ViewOption("sort", None, f"One of {', '.join(SORT_CHOICES)}.", parse=_column, metavar="COLUMN"),
        ViewOption("limit", 0, "Rows to print; 0 prints all."),
        ViewOption(
            "group",
            "name",
            "One row per name; or per name and input shapes, enclosing annotation, module or overload; or "
            "per kernel, or kernel and op.",
            choices=("name", "shape", "annotation", "module", "kernel", "op", "overload"),
        ),
        ViewOption("python_functions", False, "Include Python functions, as PyTorch 2.13 does."),
        ViewOption("name_width", None, "Widest name column; PyTorch's default is 55.", least=8),
        about="""The rows and numbers of PyTorch's key_averages().table(), in its layout. Rows are sorted by
            device time, or by CPU time if no device was recorded, unless --sort says otherwise.

            PyTorch before 2.15 can count unrelated kernels on rows of the profiler's own overhead, such as
            "Activity Buffer Request"; tracetui does not.""",
    ),
    _ours(
        "gaps",
        "Print the gaps: when a GPU was idle, and why.",
        "gaps_text:gaps_answer",
        ViewOption(
            "minimum",
            "0us",
            "Only gaps of at least this length, e.g. 5us.",
            "--min",
            parse=_time,
            metavar="TIME",
        ),
        ViewOption("limit", 20, "Gaps to print as text."),
        pane="gaps, longest first",
        about="""A GPU is idle while it runs nothing on any stream. Totals count every gap, whatever --min
            says. --json lists every gap in time order. In a trace of the CPU alone, gaps are when the
            main thread was in no op.""",
    ),
    _ours("summary", "Print what is in a trace and where to look.", "summary:summary_answer"),
    _ours(
        "steps",
        "Print one row per step.",
        "steps:steps_answer",
        ViewOption("annotation", None, "Treat each call of this annotation as a step.", metavar="NAME"),
        ViewOption("limit", 0, "Steps to print as text; 0 prints all."),
        pane="steps",
        about="""How long each took, what it launched, and how long the GPU was idle. GPU work belongs to the
            step that launched it, even if it runs after that step has ended on the CPU.""",
    ),
    _ours(
        "findings",
        "Print what to notice, and what to try.",
        "findings_text:findings_answer",
        pane="findings",
        about="Each with why it matters, and the events that show it.",
    ),
    _ours(
        "efficiency",
        "Print achieved TFLOP/s and GB/s as a share of the peak.",
        "efficiency_text:efficiency_answer",
        ViewOption("limit", 20, "Rows; 0 prints all."),
        pane="share of peak, by kernel and op",
        about="""Of operators and kernels. The work is computed from the recorded shapes (record_shapes=True);
            the time is that of the GPU events.""",
    ),
    _ours(
        "whatif",
        "Print what each fix would be worth.",
        "whatif:whatif_answer",
        pane="what if: what each fix is worth, and what holds a step up",
        is_document=True,
        letter="i",
    ),
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

    views: dict[str, View] = {}
    for plugin, view in loaded("views"):
        if plugin.name in OURS:
            failed(plugin, "a view of this name exists")
        elif checked := attempt(plugin, partial(_checked, plugin, view)):
            views[plugin.name] = checked
    return views


def _checked(plugin: Plugin, view: View) -> View:
    """The view of another package."""
    from tracetui.core.safe_text import plain

    pane = plain(view.pane, 80)
    return View(plugin.name, plain(view.title, 80), partial(_made, plugin, view.make), pane)


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
        shown=None,  # its pane has the text
        documents=None,
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
