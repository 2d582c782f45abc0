"""What the sheets say: about an event or a gap, a step, a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import starmap
from typing import NamedTuple

from rich.cells import cell_len

from tracetui.analysis.part import Part
from tracetui.core.cells import middle, wrap
from tracetui.core.units import duration, exact
from tracetui.views.event import Fact, wrapped
from tracetui.views.explain import Explanation, explain, explain_alone
from tracetui.views.gap_words import gap_facts
from tracetui.views.glossary import terms_in, terms_of
from tracetui.views.glossary_terms import Term


class SheetText(NamedTuple):
    """The text of a sheet, for any width."""

    labels: int
    """Cells of the labels."""
    lines: Callable[[int], list[Fact]]
    """The lines, with values of at most so many cells; `event` is where Enter goes, -1 for nowhere."""
    title: str = ""
    """"" for the one that the sheet has."""
    terms: Sequence[Term] = ()
    """The terms of the glossary that it uses."""
    leads: Callable[[Fact], bool] | None = None
    """Which lines have a mark that Enter goes somewhere; None: no line has."""


def event_text(part: Part, event: int, gap: int | None = None, beginning: bool = False) -> SheetText:
    """What an event is; or why a gap is there (its index in `all_gaps_of`), and the event that ended it.
    `beginning`: the part is of a file that is still being read, so nothing is said that needs all of it.
    Slow: the event's arguments are read from the file."""
    from tracetui.analysis.calls.calls import self_time_of
    from tracetui.analysis.idle.thread_gaps import all_gaps_of

    found = explain_alone(part.trace, event) if beginning else explain(part.trace, event, self_time_of(part))
    before, title = gap_facts(part, gap) if gap is not None else [], found.title
    after: list[Fact] = []
    terms: tuple[Term, ...] = ()
    if not beginning:  # the glossary's examples are of the whole trace
        told = (f"{fact.label} {fact.value}" for fact in before)
        terms = tuple(dict.fromkeys((*terms_in(*told), *terms_of(found))))
    if terms:
        names = ", ".join(term.name for term in terms)
        after = [Fact("", ""), Fact("words", f"{names} (I: what they mean)")]
    if gap is not None:
        gaps = all_gaps_of(part)
        ended = int(gaps.after[gap]) == event
        which = "idle" if gaps.device[gap] >= 0 else "no op for"
        when, where = ("then", "which ended it") if ended else ("after", "which came before it")
        title = f"{which} {duration(int(gaps.duration[gap]))}, {when} {title}"
        before += [Fact("", ""), Fact(when, f"{found.title}, {where}", event)]
    labels = max([12, *(min(24, len(fact.label)) for fact in (*before, *starmap(Fact, found.facts)))])

    def lines(width: int) -> list[Fact]:
        return wrapped(before, width) + explanation_lines(found, width) + wrapped(after, width)

    return SheetText(labels, lines, f"Explain: {title}", terms)


def explanation_lines(explanation: Explanation, width: int) -> list[Fact]:
    """The explanation as lines of `width` cells."""
    facts = [
        Fact("" if n else label, sentence)
        for label, sentences in (("what it is", explanation.what), ("why", explanation.why))
        for n, sentence in enumerate(sentences)
    ]
    lines = wrapped([*facts, *starmap(Fact, explanation.facts)], width)
    links = explanation.chain.links
    for n, link in enumerate(links):
        branch = "  " * min(link.level, 16) + ("└ " if link.level else "")
        here = "  ◀ this event" if link.slice == explanation.slice else ""
        took = exact(link.duration)
        since = "the first of its launch" if link.after_first else "its launch"
        after = f", {exact(link.delay)} after {since}" if link.delay is not None else ""
        name = link.name if link.name == link.role else f"{link.role} {link.name}"
        label, told = "chain" if n == 0 else "", f"{took}{after}{here}"
        if cell_len(f"{branch}{name}  {told}") <= width:
            lines.append(Fact(label, f"{branch}{name}  {told}", link.slice))
        else:  # put the times on their own line rather than cut them off
            lines.append(Fact(label, middle(f"{branch}{name}", width), link.slice))
            indent = " " * max(0, min(len(branch), width - 24))
            lines += [Fact("", indent + text, link.slice) for text in wrap(told, width - len(indent))]
    if explanation.chain.more:
        lines.append(Fact("", f"and {explanation.chain.more:,} more on the GPU"))
    return lines


def step_text(part: Part, step: int) -> SheetText:
    """What a step (B), by its place in the trace's step table, does differently from the median of the others
    (A). Slow: it compares them."""
    from tracetui.compare.compare import compare_steps
    from tracetui.views.compare_overview import compare_overview

    comparison = compare_steps(part, step)
    overview = compare_overview(comparison)
    facts = [Fact("answer", comparison.answer)]
    why = next((block.entries for block in overview.left if block.key == "why"), ())
    for entry, one in zip(why, comparison.explanations, strict=True):
        a, b = one.places[0].tolist() if len(one.places) else (-1, -1)
        facts.append(Fact(entry.name, entry.text, b if b >= 0 else a))
    table = [Fact("", f"{'the others':>10}  {'this step':>10}  {'difference':>11}  {'ratio':>6}")]
    for block in overview.right:
        for entry in block.entries:
            a, b, change, ratio, noise = entry.numbers
            label = f"idle: {entry.name}" if block.key == "idle" else entry.name
            table.append(Fact(label, f"{a:>10}  {b:>10}  {change:>11}  {ratio:>6}  {noise}".rstrip()))
    return SheetText(
        max(len(fact.label) for fact in (*facts, *table)),
        lambda width: wrapped([*facts, Fact("", "")], width) + table,
        leads=lambda line: line.event >= 0 and bool(line.label),
    )


def facts_text(facts: Sequence[Fact]) -> SheetText:
    """Facts one below the other."""
    return SheetText(max(len(fact.label) for fact in facts), partial(wrapped, facts))
