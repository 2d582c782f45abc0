"""`compare`: what one recording does differently from another or from a baseline, one step from others, or B
from A where one recording has both in turn."""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING

import click

from tracetui.cli.common import (
    cache_option,
    check_exists,
    command_errors,
    did_you_mean,
    emit,
    fail,
    load_or_exit,
)
from tracetui.cli.tables import FAILED_LIMIT, chosen_format, formats, print_answer
from tracetui.core.units import parse_time, plural

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tracetui.compare.model import Comparison
    from tracetui.session.baselines import Baseline
    from tracetui.trace import Trace
    from tracetui.views.limits import Limit

GATES = "step, device, compute, communication, copies, launches, kernels, bytes, cpu-op"
SIZES = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
EXAMPLES = "for example step=5%, device=50us or launches=0"


def parse_limit(text: str) -> Limit:
    """A limit as people type it: `step=5%`, `device=50us`, `launches=0`. Raises ValueError for people."""
    from tracetui.views.limits import METRICS, Limit

    name, found, number = (part.strip() for part in text.partition("="))
    name = name.lower()
    if not found or len(text) > 60:
        raise ValueError(f"expected METRIC=LIMIT, {EXAMPLES}; got {text[:60]!r}")
    if name not in METRICS:
        raise ValueError(f"no limit on {name!r}{did_you_mean(name, METRICS)}: expected one of {GATES}")
    typed = re.fullmatch(r"(\d{1,15}(?:\.\d{0,9})?|\.\d{1,9})\s*(%|[a-z]*)", number, re.ASCII | re.IGNORECASE)
    plain_number = typed if typed and typed[2] in ("", "%") else None
    if plain_number and plain_number[2]:
        return Limit(name, float(plain_number[1]) / 100, True)
    if METRICS[name].endswith("_ns"):
        if plain_number and float(plain_number[1]):
            raise ValueError(f"{name}={number}: is that a share or a time? Write {number}% or {number}us")
        try:
            if (time := parse_time(number)) >= 0:
                return Limit(name, float(time), False)
        except ValueError:
            pass
    elif METRICS[name].endswith("_bytes"):
        if typed and typed[2].lower() in SIZES:
            return Limit(name, float(typed[1]) * SIZES[typed[2].lower()], False)
    elif plain_number:
        return Limit(name, float(plain_number[1]), False)
    raise ValueError(f"expected METRIC=LIMIT, {EXAMPLES}; got {text!r}")


def _limits(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[Limit, ...]:
    try:
        return tuple(parse_limit(value) for value in values)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _complete_baseline(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    from tracetui.cli.completion import words_or_files
    from tracetui.session.baselines import baselines

    return words_or_files([one.name for one in baselines()], typed)


@click.command("compare")
@click.argument("traces", metavar="[A] B", nargs=-1, type=click.Path(path_type=str, allow_dash=True))
@click.option(
    "--step", metavar="N", type=click.IntRange(min=0), help="Compare step N of one trace with the others."
)
@click.option("--against", metavar="M", type=click.IntRange(min=0), help="With --step: compare with step M.")
@click.option(
    "--baseline",
    metavar="NAME",
    shell_complete=_complete_baseline,
    help="Compare B with the baseline NAME, or with the one in a folder (./NAME).",
)
@click.option(
    "--save", is_flag=True, help="Save B as the --baseline, replacing the last one, without comparing."
)
@click.option("--list", "listing", is_flag=True, help="List the baselines.")
@click.option(
    "--averages",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Also print the N names whose time differs most.",
)
@click.option("--all", "every", is_flag=True, help="Print every explanation.")
@click.option(
    "--fail-over",
    "limits",
    metavar="METRIC=LIMIT",
    callback=_limits,
    multiple=True,
    help="Exit with code 3 if a metric grew by more than this: a share of A's (step=5%), a time "
    f"(device=50us), a count (launches=0) or a size (bytes=1MB). Repeatable. METRIC is one of {GATES}.",
)
@click.option("--strict", is_flag=True, help="Count noise and the machine's speed, too.")
@cache_option
@formats
@command_errors
def compare_command(
    traces: tuple[str, ...],
    step: int | None,
    against: int | None,
    baseline: str | None,
    save: bool,
    listing: bool,
    averages: int,
    every: bool,
    limits: tuple[Limit, ...],
    strict: bool,
) -> None:
    """Print what B does differently from A, and what explains it.

    A and B are traces of one program before and after a change. One file is enough if it has both in turn, as
    "tracetui capture --against" records them. Numbers are medians of their steps. The
    machine's own speed is separated from what the program does: two recordings of the same program can
    differ by a third on the CPU.

    \b
      tracetui compare before.json.gz after.json.gz
      tracetui compare in_turn.json.gz
      tracetui compare train.json.gz --step 3
      tracetui compare train.json.gz --baseline main --save
      tracetui compare train.json.gz --baseline main --fail-over device=2% --fail-over launches=0

    --fail-over: step and cpu-op are wall times, which a busy machine changes by itself; device, launches and
    kernels are steadier. Noise and the effect of a slower machine do not count unless --strict.
    """
    if listing:
        if traces or baseline is not None or step is not None:
            raise click.UsageError("--list takes no other arguments")
        _list()
        return
    if against is not None and step is None:
        raise click.UsageError("--against needs --step")
    if save and baseline is None:
        raise click.UsageError("--save needs the name of a --baseline")
    if step is not None and baseline is not None:
        raise click.UsageError("use either --step or --baseline")
    single = "--step" if step is not None else "--baseline" if baseline is not None else ""
    if len(traces) not in ((1,) if single else (1, 2)):
        need = f"{single} takes one trace" if single else "give two traces, or one that has A and B in turn"
        raise click.UsageError(f"{need}; got {len(traces)}")
    if save and (limits or strict):
        raise click.UsageError("--save compares nothing: use it without --fail-over")
    if traces.count("-") > 1:
        raise click.UsageError("only one of the two can be standard input")
    if save:
        assert baseline is not None
        _keep(baseline, traces[0])
        return

    found: Comparison
    predicted: float | None = None
    if step is not None:
        found, names = _steps(traces[0], step, against)
    elif baseline is not None:
        kept = _baseline(baseline)
        for path in traces:
            check_exists(path)
        a, b = load_or_exit(str(kept.trace)), load_or_exit(traces[0])
        from tracetui.views.compare_text import file_names

        found = _compared(a, b)
        names = f"baseline {kept.name}: {kept.source}", file_names("", traces[0])[1]
    elif len(traces) == 1:
        found, names, predicted = _in_turn(traces[0])
    else:
        for path in traces:
            check_exists(path)
        from tracetui.views.compare_text import file_names

        found, names = _compared(*map(load_or_exit, traces)), file_names(*traces)
    _report(found, names, limits, strict, averages, every, predicted)


def _compared(a: Trace, b: Trace) -> Comparison:
    from tracetui.analysis.part import Part
    from tracetui.compare.compare import compare

    return compare(Part(a), Part(b))


def _in_turn(path: str) -> tuple[Comparison, tuple[str, str], float | None]:
    """A and B of one trace: what differs, what they are called, and how much more B was predicted to take."""
    trace = load_or_exit(path)
    from tracetui.analysis.part import Part
    from tracetui.compare.compare import compare_in_turn
    from tracetui.views.compare_text import file_names

    try:
        found = compare_in_turn(Part(trace))
    except LookupError as error:
        need = "give two traces, or one with --step or --baseline"
        raise click.UsageError(f"{error.args[0]}: {need}") from None
    name = file_names("", path)[1]
    from tracetui.capture.measure import captured_workload
    from tracetui.core.safe_text import plain

    options = captured_workload(path)
    other = options.other() if options is not None else None
    if options is None or other is None:
        return found, (f"{name}, A", f"{name}, B"), None
    predicted = None if options.predicted is None else -1e9 * options.predicted
    sides = ((options, other), (other, options))
    a, b = (plain(shlex.join([one.target, *one.own_words(unlike)])) for one, unlike in sides)
    return found, (a, b), predicted


def _steps(path: str, step: int, against: int | None) -> tuple[Comparison, tuple[str, str]]:
    """One step of a trace and the others, by the numbers that `steps` shows."""
    trace = load_or_exit(path)
    from tracetui.analysis.part import Part
    from tracetui.analysis.steps.scope import step_scope, step_table_of
    from tracetui.compare.compare import compare_steps
    from tracetui.views.compare_text import file_names

    part = Part(trace)
    places = []
    for number, option in ((step, "--step"), (against, "--against")):
        try:
            places.append(None if number is None else step_scope(trace, number).step)
        except LookupError as error:
            raise click.BadParameter(str(error.args[0]), param_hint=option) from None
    if step == against:
        raise click.BadParameter("a step cannot be compared with itself", param_hint="--against")
    count = len(step_table_of(part))
    if count < 2:
        raise click.BadParameter("the trace has only one step", param_hint="--step")
    assert places[0] is not None
    found = compare_steps(part, places[0], places[1])
    name = file_names("", path)[1]
    others = (
        f"step {against}"
        if against is not None
        else "the other step"
        if count == 2
        else f"the other {count - 1} steps"
    )
    return found, (f"{name}, {others}", f"{name}, step {step}")


def _report(
    found: Comparison,
    names: tuple[str, str],
    limits: tuple[Limit, ...],
    strict: bool,
    averages: int,
    every: bool,
    predicted: float | None,
) -> None:
    from tracetui.views.compare_text import Report, compare_answer
    from tracetui.views.limits import check_limits, failure

    outcomes = check_limits(found, limits, strict)
    print_answer(compare_answer(Report(found, names, outcomes, averages, every, predicted)))
    over = [one for one in outcomes if one.over]
    for one in over:
        click.echo(f"tracetui: {failure(one)}", err=True)
    if over:
        sys.exit(FAILED_LIMIT)


# Baselines


def _baseline(text: str) -> Baseline:
    from tracetui.session.baselines import BadName, BaselineError, NoBaseline, baselines, find_baseline

    try:
        return find_baseline(text)
    except BadName as error:
        fail(str(error), 2)
    except NoBaseline as error:
        near = did_you_mean(text, [one.name for one in baselines()])
        fail(f"{error}{near or ': save one with --save'}")
    except BaselineError as error:
        fail(str(error))


def _keep(text: str, path: str) -> None:
    from tracetui.session.baselines import BaselineError, folder_of, keep

    try:
        folder_of(text)
    except BaselineError as error:
        fail(str(error), 2)
    if path == "-":
        fail("only a file can be saved as a baseline, not standard input", 2)
    trace = load_or_exit(path)
    try:
        kept = keep(text, path)
    except BaselineError as error:
        fail(str(error))
    from tracetui.core.safe_text import plain
    from tracetui.views.jsonable import dumps

    size = plural(trace.events, "event")
    if chosen_format() == "json":
        emit(dumps({"baseline": kept.name, "source": kept.source, "path": plain(str(kept.trace))}))
    else:
        emit(f"{kept.source} is the baseline {kept.name} now ({size}): {plain(str(kept.trace))}")


def _list() -> None:
    import time

    from tracetui.core.safe_text import plain
    from tracetui.session.baselines import baselines, baselines_folder
    from tracetui.session.recent import ago
    from tracetui.views.jsonable import dumps

    found = baselines()
    if chosen_format() == "json":
        emit(
            dumps(
                [
                    {
                        "baseline": one.name,
                        "source": one.source,
                        "path": plain(str(one.trace)),
                        "saved": one.saved,
                    }
                    for one in found
                ]
            )
        )
        return
    if not found:
        emit(f"no baselines in {plain(str(baselines_folder()))}")
        return
    width = max(len(one.name) for one in found)
    now = time.time()
    lines = [
        f"{one.name:<{width}}  {ago(now - one.saved) if one.saved else '':>10}  {one.source}" for one in found
    ]
    emit("\n".join([*lines, "", f"They are in {plain(str(baselines_folder()))}"]))
