"""What the tool says of real traces against what an expert says.

`truth.toml` was written from the raw JSON alone, not from the tool's answers. Where the environment variable
TRACETUI_TRUTH names a folder, its `truth.toml` is read, too; the files named there lie beside it.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.conftest import COLLECTION, needed

from tracetui.cli.main import main
from tracetui.rules import RULES

from . import plain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Entry = dict[str, Any]
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDERS = {"samples": ROOT / "sample_traces", "data": ROOT / "tests" / "data", "collection": COLLECTION}
FIELDS = {"file", "what", "steps", "count", "verdict", "not", "busy", "cause", "share", "says", "evidence"}
FIELDS |= {"must", "must_not"}

BEFORE_LAUNCH = ("initialisation", "profiler", "sync", "allocation", "dispatch", "host")
"""Causes of the time before the launch of what ends a gap; the first two reach into the launch, too."""
NOT_THE_CPU = ("queued", "back to back", "unlinked")
UNKNOWN = ("not recorded", "in flight", "graph capture")
"""These come before all others but the first two."""
CAUSES = (*BEFORE_LAUNCH, "launch", *NOT_THE_CPU, *UNKNOWN)


def entries() -> Iterable[tuple[Path, Entry]]:
    """Each entry with the path of its trace, which may be missing."""
    for entry in tomllib.loads((HERE / "truth.toml").read_text(encoding="utf-8"))["trace"]:
        folder, _, name = entry["file"].partition("/")
        yield FOLDERS[folder] / name, entry
    if more := os.environ.get("TRACETUI_TRUTH"):
        for entry in tomllib.loads((Path(more) / "truth.toml").read_text(encoding="utf-8"))["trace"]:
            yield Path(more) / entry["file"], entry


ENTRIES = list(entries())


@pytest.fixture(scope="module", params=ENTRIES, ids=[entry["file"] for _, entry in ENTRIES])
def case(request: pytest.FixtureRequest) -> tuple[Path, Entry]:
    """A trace and its entry; all tests of one trace run together."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def path(case: tuple[Path, Entry]) -> Path:
    return case[0]


@pytest.fixture
def entry(case: tuple[Path, Entry]) -> Entry:
    return case[1]


@lru_cache(maxsize=4)
def said(path: Path, command: str, *options: str) -> Any:
    """What a command answers, as JSON. Skips where the trace is not there."""
    result = CliRunner().invoke(main, [command, str(needed(path)), "--json", *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def verdict_of(path: Path) -> Any:
    return said(path, "summary")


def device_gaps(path: Path) -> list[tuple[Any, Any]]:
    """Each gap with its device."""
    return [(device, gap) for device in said(path, "gaps")["devices"] for gap in device["gaps"]]


def pieces_of(gap: Any) -> dict[str, int]:
    """What a gap is made of: ns by cause."""
    assert "pieces" in gap, "gaps --json gives no pieces"
    pieces = {piece["cause"]: piece["duration_ns"] for piece in gap["pieces"]}
    assert len(pieces) == len(gap["pieces"]), "a cause stands twice in a gap"
    return pieces


def by_cause(totals: list[Any]) -> dict[str, int]:
    """The causes that occur, with their times in ns."""
    return {total["cause"]: total["duration_ns"] for total in totals if total["duration_ns"]}


def fails(entry: Entry, expected: object, found: object) -> None:
    pytest.fail(
        f"{entry['file']}: {entry['what']}\n  expected: {expected}\n  said:     {found}\n"
        f"  evidence: {' '.join(entry['evidence'].split())}",
        pytrace=False,
    )


def share_text(low_high: list[float], value: float | None) -> tuple[str, str]:
    return "{:.1%} to {:.1%}".format(*low_high), "none" if value is None else f"{value:.2%}"


def test_an_entry_is_complete(path, entry):
    assert entry.keys() <= FIELDS
    assert {"file", "what", "steps", "must_not", "evidence"} <= entry.keys()
    assert ("verdict" in entry) != ("not" in entry)
    assert ("cause" in entry) == ("share" in entry)


def test_rules_are_called_by_their_names():
    named = {rule for _, entry in ENTRIES for key in ("must", "must_not") for rule in entry.get(key, [])}
    assert not {name for rule in named - {"*"} for name in rule.split("|") if name not in RULES}


def test_every_trace_in_the_repository_has_an_entry():
    told = {path for path, _ in ENTRIES}
    traces = [*FOLDERS["samples"].glob("*.json.gz"), *FOLDERS["data"].rglob("*.json.gz")]
    assert traces
    # analysis/test_other_writers.py tells of those of other writers, ranks/ of jobs.
    elsewhere = {FOLDERS["data"] / "writers", FOLDERS["data"] / "ranks"}
    assert not {str(path) for path in traces if path not in told and not elsewhere & set(path.parents)}


def test_verdict(path, entry):
    summary = verdict_of(path)
    found, reason = summary["verdict"], summary["reason"]
    if found not in entry.get("verdict", [found]) or found in entry.get("not", []):
        fails(entry, entry.get("verdict") or f"none of {entry['not']}", f"{found}: {reason}")
    texts = " ".join([reason, *(f["title"] + f["text"] for f in summary["findings"])])
    if missing := [word for word in entry.get("says", []) if word not in texts]:
        fails(entry, f"{missing} named in the verdict's reason or a finding", texts)


def test_busy_share(path, entry):
    summary = verdict_of(path)
    low, high = entry.get("busy", [0, 1])
    found = summary["busy_share"]
    if "busy" in entry and (found is None or not low <= found <= high):
        expected, value = share_text(entry["busy"], found)
        fails(entry, f"busy {expected} of the steps", f"{value}: {summary['reason']}")


def test_steps(path, entry):
    summary = verdict_of(path)
    low, high = entry.get("count", [0, sys.maxsize])
    if not low <= summary["steps"] <= high:
        fails(entry, f"{low} to {high} steps, from {entry['steps']}", f"{summary['steps']} steps")
    source = said(path, "steps")["annotation"]
    if summary["steps"] and entry["steps"] not in ("none", "repeats") and entry["steps"] not in source:
        fails(entry, f"steps from {entry['steps']}", f"from {source}")


def test_main_cause(path, entry):
    totals = by_cause(verdict_of(path)["idle_by_cause"])
    if "cause" not in entry:
        return
    idle = sum(totals.values())
    shares = {cause: total / idle for cause, total in sorted(totals.items(), key=lambda t: -t[1])}
    causes = [entry["cause"]] if isinstance(entry["cause"], str) else entry["cause"]
    low, high = entry["share"]
    main_cause = next(iter(shares), None)
    if main_cause not in causes or not low <= shares[main_cause] <= high:
        found = ", ".join(f"{cause} {share:.1%}" for cause, share in shares.items())
        fails(entry, f"{' or '.join(causes)}, {low:.0%} to {high:.0%} of the idle time", found)


def test_findings(path, entry):
    titles = {finding["rule"]: finding["title"] for finding in verdict_of(path)["findings"]}
    wrong = sorted(titles) if "*" in entry["must_not"] else []
    wrong += [rule for rule in titles if rule in entry["must_not"]]
    missing = [rule for rule in entry.get("must", []) if titles.keys().isdisjoint(rule.split("|"))]
    if wrong or missing:
        fails(entry, f"there: {missing}; not there: {wrong}", titles)


def test_verdict_causes_and_findings_agree(path, entry):
    summary = verdict_of(path)
    verdict, rules = summary["verdict"], {finding["rule"] for finding in summary["findings"]}
    if ("overhead_bound" in rules) and verdict != "overhead-bound":
        fails(entry, f"no overhead_bound beside {verdict}", sorted(rules))
    if ("little_use" in rules) and verdict in ("overhead-bound", "compute-bound"):
        fails(entry, f"no little_use beside {verdict}", sorted(rules))
    totals = by_cause(summary["idle_by_cause"])
    if verdict == "overhead-bound" and 2 * sum(totals.get(c, 0) for c in NOT_THE_CPU) > sum(totals.values()):
        fails(entry, "the CPU's causes beside overhead-bound", totals)


def test_idle_by_cause_adds_up(path, entry):
    """Pieces make a gap, gaps the idle time, and the causes of all are those of the device and the trace."""
    everything: Counter[str] = Counter()
    for device in said(path, "gaps")["devices"]:
        of_device: Counter[str] = Counter()
        for gap in device["gaps"]:
            pieces = pieces_of(gap)
            assert all(part > 0 for part in pieces.values())
            assert sum(pieces.values()) == gap["duration_ns"]
            assert pieces[gap["cause"]] == max(pieces.values()), "the main cause is the largest piece"
            of_device += Counter(pieces)
        idle = device["idle_ns"] + device["unknown_ns"]
        assert sum(of_device.values()) == idle == device["span_ns"] - device["busy_ns"]
        assert of_device == {
            total["cause"]: total["duration_ns"] for total in device["causes"] if total["duration_ns"]
        }
        everything += of_device
    assert everything == by_cause(verdict_of(path)["idle_by_cause"])


def test_idle_time_equals_a_plain_count(path, entry):
    raw = plain.read(said_path(path))
    for device in said(path, "gaps")["devices"]:
        busy = raw.busy[str(device["device"])]
        assert device["busy_ns"] == pytest.approx(sum(b - a for a, b in busy), abs=len(busy))
        assert device["gap_count"] == len(busy) - 1
        assert device["last_ns"] - device["first_ns"] == pytest.approx(busy[-1][1] - busy[0][0], abs=1)


def test_time_outside_any_op_equals_a_plain_count(path, entry):
    """In each gap: `host` is what the launching thread spent outside any op before the launch, less at most
    what stands under a cause that goes before it; `dispatch` likewise inside ops."""
    raw = plain.read(said_path(path))
    wrong, counted, host = [], 0, 0
    for device in said(path, "gaps")["devices"]:
        shift = raw.busy[str(device["device"])][0][0] - device["first_ns"]
        for gap in device["gaps"]:
            begin = gap["start_ns"] + shift
            end = begin + gap["duration_ns"]
            pieces = pieces_of(gap)
            early = sum(pieces.get(cause, 0) for cause in (*BEFORE_LAUNCH, *UNKNOWN))
            others = early - pieces.get("host", 0) - pieces.get("dispatch", 0)
            readings = raw.before_launch(device["device"], begin, end)
            host += pieces.get("host", 0)
            counted += min((outside for outside, _ in readings), default=0)
            if not any(
                -2 <= outside - pieces.get("host", 0) <= others + 2
                and -2 <= inside - pieces.get("dispatch", 0) <= others + 2
                and outside + inside <= early + 4
                for outside, inside in readings
            ):
                wrong.append((gap["duration_ns"], begin, pieces, readings))
    if wrong:
        wrong.sort(key=lambda gap: -gap[0])
        shown = [f"{at} + {ns} ns: {pieces}, (outside, inside) {by}" for ns, at, pieces, by in wrong[:5]]
        fails(
            entry, f"{counted:,} ns outside any op in gaps, by a plain count",
            f"{host:,} ns; {len(wrong)} gaps differ\n    " + "\n    ".join(shown)
        )  # fmt: skip


def test_causes_have_names_that_are_known(path, entry):
    """A tenth of a gap or more never stands under a word that means "something else"."""
    words = {
        (cause, gap["start_ns"]) for _, gap in device_gaps(path) for cause,
        duration in pieces_of(gap).items() if 10 * duration >= gap["duration_ns"] and cause not in CAUSES
    }  # fmt: skip
    if words:
        fails(entry, f"only {', '.join(CAUSES)}", sorted(words)[:5])


def said_path(path: Path) -> Path:
    """The path, where there is a trace that a plain reader of JSON can read; skips otherwise."""
    if not said(path, "gaps")["devices"]:
        pytest.skip("no device")
    return path
