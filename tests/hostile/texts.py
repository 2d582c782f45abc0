"""What a stranger may have written into a trace, one text per kind; and a trace that has it everywhere."""

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

KINDS: dict[str, str] = {
    "csi": "\x1b[2J\x1b[31;5mred\x1b[H", "osc52": "\x1b]52;c;cm0gLXJmCg==\x07copied",
    "osc8": "\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\", "osc0": "\x1b]0;title\x07after",
    "dcs": '\x1bP$q"p\x1b\\after\x1b_apc\x1b\\', "c1": "\x9b31mred\x9d52;c;cm0=\x9c\x90q\x9c",
    "c0": "".join(map(chr, range(32))) + "\x7f",
    "right-to-left": "\u202eevil\u202c\u2066a\u2069\u200fb\u061cc",
    "wide": "计算机模拟\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1ea한글ｆｕｌｌ",
    "zero-width": "a\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u115f\u3164b\ufe0f\U000e0041",
    "combining": "e" + "\u0301" * 300 + "o" + "\u0e49" * 300 + "x" + "\u20dd" * 50,
    "markup": "[bold]b[/bold] [/] [@click=app.quit]q[/] [link=http://x]l[/link] [red on blue] \\[ [[]]",
    "newline": "one\ntwo\r\nthree\rfour\x0bfive\x0csix\u2028seven\u2029eight\x85nine", "tab": "a\tb\t\tc",
    "surrogate": "\ud800half\udfff",
    "markdown": "a|b`c``d\\|e*f*_g_<img src=x>[h](i)|\n# j\n- k ~~l~~ &amp; @m #1",
    "format": "%s %(x)d {0} {name!r} {{}} $HOME ${x}", "long": "L" * 50_000, "long wide": "计" * 5_000
}  # fmt: skip
UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
PILE = 8
"""So many marks over one letter still are a letter: more are a pile."""


def unsafe(text: str, allowed: str = "\n") -> list[str]:
    """The characters of `text` that could move a cursor, hide, or reorder; and piles of marks."""
    category = {c: unicodedata.category(c) for c in set(text)}
    bad = {c for c in category if c not in allowed and category[c] in UNSAFE_CATEGORIES}
    found = [f"U+{ord(c):04X}" for c in text if c in bad] if bad else []
    if marks := {c for c in category if category[c] in ("Mn", "Me")}:
        run = 0
        for c in text:
            run = run + 1 if c in marks else 0
            if run > PILE:
                return [*found, f"a pile of U+{ord(c):04X}"]
    return found


def without_colors(text: str) -> str:
    """`text` without the escape sequences that only choose colors."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _slice(name: str, cat: str, ts: float, dur: float, tid: Any = 1, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, **more}


def hostile_events(text: str) -> list[dict[str, Any]]:
    """Three steps of a training loop on one GPU, in which every name, key and value is or holds `text`."""
    nested = {text: [text, {text: [None, 1.5, {text: text}]}]}
    meta = [
        ("process_name", 1, {"name": text}), ("process_labels", 1, {"labels": text}),
        ("process_name", 0, {"name": text}), ("process_labels", 0, {"labels": text})
    ]  # fmt: skip
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": name, "pid": pid, "tid": 0, "ts": 0, "args": args} for name, pid, args in meta
    ]
    events += [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": text}}
        for pid, tid in ((1, 1), (0, 7), (text, text))
    ]
    call = 0
    for step in range(3):
        at = 100.0 + step * 1000
        events.append(_slice(f"ProfilerStep#{step}", "user_annotation", at, 900))
        events.append(_slice(f"forward {text}", "user_annotation", at + 10, 800))
        events.append(_slice(text, text, at + 1, 3))
        for i in range(6):
            call += 1
            t = at + 20 + i * 120
            ids = {"External id": call}
            shapes = {"Input Dims": [[64, 64], [64, 64], text], "Input type": [text, "float", text]}
            name = ("aten::mm", text, f"aten::{text}")[i % 3]
            events.append(_slice(name, "cpu_op", t, 100, args={**ids, **shapes, **nested, "key": text}))
            runtime = {**ids, "correlation": call, text: text}
            launch = ("cudaLaunchKernel", f"cudaLaunchKernel {text}")[i % 2]
            events.append(_slice(launch, "cuda_runtime", t + 40, 8, args=runtime))
            kernel = (text, f"void at::native::{text}<4, {text}>({text})", f"triton_poi_fused_{text}_0")[
                i % 3
            ]
            device = {**ids, "correlation": call, "device": 0, "stream": 7, "grid": text, **nested}
            where = {"pid": 0, "tid": 7}
            events.append(_slice(kernel, "kernel", t + 60, 12 + 6 * i, args=device) | where)
        events.append(_slice(f"cudaDeviceSynchronize{text}", "cuda_runtime", at + 760, 40))
        events.append({"ph": "i", "cat": text, "name": text, "pid": 1, "tid": 1, "ts": at + 5, "s": "t"})
        counter = {
            "ph": "C", "cat": text, "name": text, "pid": 1, "tid": 1, "ts": at + 5, "args": {text: step}
        }  # fmt: skip
        events.append(counter)
    events.append(_slice(text, text, 200, 50, tid=text) | {"pid": text})
    events.append({"ph": text, "cat": text, "name": text, "pid": 1, "tid": 1, "ts": 300})
    events.append(_slice(text, "overhead", 300, 20, tid=0) | {"pid": -1})
    for ph, name in (("s", "aten::mm"), ("f", text)):
        events.append({"ph": ph, "id": text, "cat": text, "name": name, "pid": 1, "tid": 1, "ts": 125})
    return events


def hostile_trace(text: str) -> dict[str, Any]:
    return {
        "schemaVersion": 1, text: text, "traceName": text, "displayTimeUnit": text,
        "deviceProperties": [
            {"id": 0, "name": text, "computeMajor": text, "computeMinor": text, "numSms": text, text: text},
            {"id": text, "name": text}
        ],
        "distributedInfo": {"backend": text, "rank": text, text: {text: text}, "pg_config": [{text: text}]},
        "traceEvents": hostile_events(text)
    }  # fmt: skip


def write(folder: Path, text: str, name: str = "trace") -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(hostile_trace(text)))
    return path
