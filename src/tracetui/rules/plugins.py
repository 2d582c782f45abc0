"""Rules of other packages: what they find is checked, and they cannot stop the analysis."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from tracetui.analysis.part import Part
from tracetui.core.copying import replace
from tracetui.core.plugins import Plugin, attempt, failed, loaded
from tracetui.core.safe_text import plain
from tracetui.rules.claims import Claim, Count, Named, Names, Rate, Ratio, Share, Size, Time
from tracetui.rules.model import EVIDENCE, SEVERITIES, Finding, Rule


def rules_of_plugins(known: Container[str]) -> dict[str, Rule]:
    """Rules by name. `known`: the names that are taken."""
    rules: dict[str, Rule] = {}
    for plugin, rule in loaded("rules"):
        if plugin.name in known:
            failed(plugin, "a rule of this name exists")
        elif not callable(rule):
            failed(plugin, "is not a function of a part of a trace")
        else:
            rules[plugin.name] = _guarded(plugin, rule)
    return rules


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
    texts: dict[str, Any] = {
        name: plain(getattr(finding, name)) for name in ("title", "text", "advice", "device")
    }
    numbers = {plain(name, 60): float(value) for name, value in finding.numbers.items()}
    claims = {plain(name, 60): _safe(claim) for name, claim in finding.claims.items()}
    return replace(finding, rule=plugin.name, evidence=evidence, numbers=numbers, claims=claims, **texts)


def _safe(claim: Claim) -> Claim:
    """A claim without anything in its names that a terminal would obey. Raises for what is none."""
    if isinstance(claim, str):
        return plain(claim)
    if isinstance(claim, Names):
        return Names(tuple(Named(plain(one.name), one.calls, one.ns) for one in claim.each))
    if isinstance(claim, Share):
        return Share(claim.part, claim.whole, plain(claim.of))
    if isinstance(claim, Rate):
        return Rate(claim.per_second, plain(claim.unit))
    if claim is None or isinstance(claim, bool | Time | Count | Size | Ratio):
        return claim
    raise ValueError(f"{claim!r} is no claim")
