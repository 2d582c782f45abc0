"""Rules of other packages: what they find is checked, and they cannot stop the analysis."""

from __future__ import annotations

from collections.abc import Container, Iterator

from tracetui.analysis.part import Part
from tracetui.core.copying import replace
from tracetui.core.plugins import Plugin, attempt, failed, loaded
from tracetui.core.safe_text import plain
from tracetui.rules.model import EVIDENCE, SEVERITIES, Finding, Rule


def rules_of_plugins(known: Container[str]) -> dict[str, Rule]:
    """Rules by name. `known`: the names that are taken."""
    found: dict[str, Rule] = {}
    for plugin, rule in loaded("rules"):
        if plugin.name in known:
            failed(plugin, "a rule of this name exists")
        elif not callable(rule):
            failed(plugin, "is not a function of a part of a trace")
        else:
            found[plugin.name] = _guarded(plugin, rule)
    return found


def _guarded(plugin: Plugin, rule: Rule) -> Rule:
    def guarded(part: Part) -> Iterator[Finding]:
        found = attempt(plugin, lambda: [_checked(plugin, part, one) for one in rule(part)])
        return iter(found or ())

    return guarded


def _checked(plugin: Plugin, part: Part, finding: Finding) -> Finding:
    """The finding as it can be shown, and ranked with the others. Raises if that cannot be."""
    if finding.severity not in SEVERITIES:
        raise ValueError(f"severity {finding.severity!r}: expected one of {', '.join(SEVERITIES)}")
    evidence = tuple(map(int, finding.evidence[:EVIDENCE]))
    if not evidence or not all(0 <= i < len(part.trace) for i in evidence):
        raise ValueError("evidence must be slices of the trace, at least one")
    texts = {name: plain(getattr(finding, name)) for name in ("title", "text", "advice", "device")}
    numbers = {plain(name, 60): float(value) for name, value in finding.numbers.items()}
    return replace(finding, rule=plugin.name, evidence=evidence, numbers=numbers, **texts)
