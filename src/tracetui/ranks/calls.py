"""The collectives that one rank took part in: which group, which place in its order, when they ran."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from tracetui.analysis.idle.kinds import communicates
from tracetui.analysis.select import plausible
from tracetui.core.safe_text import plain
from tracetui.trace import Kind, Trace
from tracetui.trace.intervals import EMPTY, Intervals, union_of
from tracetui.trace.model import I32, I64

RECORD = "record_param_comms"
"""The op that says which collective a call is, and of which group."""
COLLECTIVE = "Collective name"
WAIT = "wait"
"""A record of this name repeats the number of the collective that is waited for."""
GLOO = "gloo:"
NO_NUMBER = -1
MOST_MEMBERS = 1 << 20
_BYTES = {
    "Byte": 1, "Char": 1, "Bool": 1, "Short": 2, "Half": 2, "BFloat16": 2, "Int": 4, "Float": 4, "Long": 8,
    "Double": 8, "ComplexFloat": 8, "ComplexDouble": 16,
}  # fmt: skip


class Key(Struct, frozen=True):
    """What the calls of one collective have in common on all its ranks. Calls of one key are made in the same
    order on each."""

    kind: str
    """"group", "pair" (a send and its receive), or "all": the group is not known, so that it is all ranks."""
    name: str
    """Of the group, as in the file: NOT safe to show. For "all", what the calls are named."""
    ranks: tuple[int, ...] = ()
    """The members where they are known; for a pair, (sender, receiver)."""


class Calls(Struct, frozen=True, eq=False):
    """The collectives of a rank, in the order in which the CPU asked for them. Arrays of one length; times in
    ns on the file's clock."""

    keys: tuple[Key, ...]
    ops: tuple[str, ...]
    """What they are: "all_reduce", "send", ... Safe to show."""
    key: I32
    op: I32
    size: I64
    """Elements that go in, NO_NUMBER if not known."""
    bytes: I64
    """What goes in or, if that is more, what comes out; NO_NUMBER if not known."""
    number: I64
    """`Seq`, or NO_NUMBER."""
    called: I64
    """When the CPU launched it."""
    start: I64
    end: I64
    hidden: I64
    """How much of it other kernels ran beside it."""
    unknown: int = 0
    """Collectives whose group is not known: launched before the recording, or in a batch."""

    def __len__(self) -> int:
        return len(self.start)


def calls_of(trace: Trace, rank: int | None) -> Calls:
    """The collectives in a trace of this rank. `called`, `start` and `end` are on the file's clock."""
    kernels = plausible(trace, Kind.KERNEL)
    talks = communicates(trace)[trace.name[kernels]]
    at, others = kernels[talks], kernels[~talks]
    launch = trace.launch[at].astype(np.int64)
    # Without a launch it began before the recording, unless the file has no launches at all.
    known = launch >= 0 if (trace.launch >= 0).any() else np.ones(len(at), np.bool_)
    unknown, at, launch = int((~known).sum()), at[known], launch[known]
    record = _records(trace, at, launch)
    args = _args(trace, at, record)
    members = _members(trace)
    told = any(COLLECTIVE in one for one in args)
    rows: dict[tuple[Any, ...], list[int]] = {}
    found: list[tuple[Key, str, int, int, int]] = []
    for place, (i, of, one) in enumerate(zip(at.tolist(), record.tolist(), args, strict=True)):
        key = _key(one, rank, members) if COLLECTIVE in one else _unknown(trace, i, of, told)
        if key is None:
            unknown += 1
            continue
        op = plain(str(one[COLLECTIVE]), 60) if COLLECTIVE in one else _short(trace, i)
        number, size = _integer(one.get("Seq")), _integer(one.get("In msg nelems"))
        # A collective may run as several kernels.
        same = ("record", of) if of >= 0 and key.kind != "all" else ("kernel", i)
        if same not in rows:
            rows[same] = []
            found.append((key, op, size, _moved(one), number))
        rows[same].append(place)
    first = np.array([min(some) for some in rows.values()], np.int64)
    start = np.array([trace.start[at[some]].min() for some in rows.values()], np.int64)
    end = np.array([trace.end_of(at[some]).max() for some in rows.values()], np.int64)
    launched = launch[first] if len(first) else first
    called = np.where(launched >= 0, trace.start[launched], start)
    for i in _gloo(trace).tolist():
        name = trace.name_of(i)
        found.append((Key("all", name), name.removeprefix(GLOO), NO_NUMBER, NO_NUMBER, NO_NUMBER))
        start, end = np.append(start, trace.start[i]), np.append(end, trace.end_of(i))
        called = np.append(called, trace.start[i])
    computing = union_of(trace.start, trace.duration, others) if len(others) else EMPTY
    return _table(found, called, start, end, computing, trace.info.zero_ns, unknown)


def _table(
    found: list[tuple[Key, str, int, int, int]],
    called: I64,
    start: I64,
    end: I64,
    computing: Intervals,
    zero: int,
    unknown: int,
) -> Calls:
    order = np.lexsort((start, called))
    keys = {key: i for i, key in enumerate(dict.fromkeys(key for key, *_ in found))}
    ops = {op: i for i, op in enumerate(dict.fromkeys(op for _, op, *_ in found))}
    number = np.array([seq for *_, seq in found], np.int64)
    return Calls(
        tuple(keys),
        tuple(ops),
        np.array([keys[key] for key, *_ in found], np.int32)[order],
        np.array([ops[op] for _, op, *_ in found], np.int32)[order],
        np.array([size for _, _, size, *_ in found], np.int64)[order],
        np.array([moved for *_, moved, _ in found], np.int64)[order],
        number[order],
        called[order] + zero,
        start[order] + zero,
        end[order] + zero,
        computing.overlap(start[order], end[order]),
        unknown,
    )


def _records(trace: Trace, at: I64, launch: I64) -> I64:
    """The `record_param_comms` of each kernel, -1 for none."""
    is_record = np.array([name == RECORD for name in trace.names], np.bool_)
    records = np.full(len(at), -1, np.int64)
    if not is_record.any():
        return records
    around = np.where(launch >= 0, trace.parent[launch], -1).astype(np.int64)
    for of in (trace.op[at], np.where(launch >= 0, trace.op[launch], -1)):
        mine = (records < 0) & (of >= 0)
        mine[mine] = is_record[trace.name[of[mine]]]
        records[mine] = of[mine]
    while (left := (records < 0) & (around >= 0)).any():
        mine = left.copy()
        mine[left] = is_record[trace.name[around[left]]]
        records[mine] = around[mine]
        around[left] = trace.parent[around[left]]
    return records


def _args(trace: Trace, at: I64, record: I64) -> list[Mapping[str, Any]]:
    """What the file says about each collective: on its kernel, or else on its record."""
    found: list[Mapping[str, Any]] = [{}] * len(at)
    # The kernels of a file are alike: one tells whether the others say which collectives they are. The first
    # in the file, as compressed text is read forward.
    asked = np.flatnonzero(record >= 0)
    if len(asked) and COLLECTIVE in trace.args(int(at[asked[np.argmin(trace.source[at[asked]])]])):
        for place, args in trace.args_in_turn(at[asked]):
            found[asked[place]] = args
        asked = np.array([i for i in asked.tolist() if COLLECTIVE not in found[i]], np.int64)
    for place, args in trace.args_in_turn(record[asked]) if len(asked) else ():
        found[asked[place]] = args
    return found


def _members(trace: Trace) -> dict[str, tuple[int, ...]]:
    """The ranks of each group, by its name, as far as the file's head has them."""
    groups = (trace.info.distributed or {}).get("pg_config")
    members = {}
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict) and (ranks := _ranks(group.get("ranks"))):
            members[str(group.get("pg_name"))] = ranks
    return members


def _ranks(value: Any) -> tuple[int, ...]:
    """Ranks as a list, or as the text of one; () for anything else."""
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value[:MOST_MEMBERS])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return ()
    return tuple(value) if isinstance(value, list) and all(type(one) is int for one in value) else ()


def _integer(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 62 else NO_NUMBER


def _moved(args: Mapping[str, Any]) -> int:
    """The bytes of a collective's larger side."""
    most = max(_integer(args.get("In msg nelems")), _integer(args.get("Out msg nelems")))
    name = str(args.get("dtype"))
    width = 1 if name.startswith("Float8") else _BYTES.get(name)
    return most * width if width and 0 <= most < 1 << 50 else NO_NUMBER


def _key(args: Mapping[str, Any], rank: int | None, members: Mapping[str, tuple[int, ...]]) -> Key:
    name = str(args.get("Process Group Name", ""))
    sender, receiver = args.get("Src Rank"), args.get("Dst Rank")
    if rank is not None and (type(sender) is int or type(receiver) is int):
        pair = (sender, rank) if type(sender) is int else (rank, receiver)
        return Key("pair", name, pair)  # type: ignore[arg-type]  # one of them is a number
    ranks, many = _ranks(args.get("Process Group Ranks")), args.get("Group size")
    if type(many) is int and len(ranks) != many:
        # PyTorch cuts long lists short.
        first, apart = args.get("Global rank start"), args.get("Global rank stride")
        if type(first) is int and type(apart) is int and apart > 0 and 0 < many < MOST_MEMBERS:
            ranks = tuple(range(first, first + many * apart, apart))
        else:
            ranks = members.get(name, ())
    return Key("group", name, ranks)


def _unknown(trace: Trace, kernel: int, record: int, told: bool) -> Key | None:
    """For a kernel that does not say which collective it is: None if its group cannot be known."""
    name, launch = trace.name_of(kernel), int(trace.launch[kernel])
    graph = launch >= 0 and "GraphLaunch" in trace.name_of(launch)
    if told and "nccl" in name.lower() and not graph:
        return None
    return Key("all", _short(trace, kernel))


def _short(trace: Trace, kernel: int) -> str:
    return trace.name_of(kernel).partition("(")[0][:100]


def _gloo(trace: Trace) -> I64:
    """The collectives of gloo, which run on the CPU."""
    names = np.array([name.startswith(GLOO) for name in trace.names], np.bool_)
    at: I64 = np.flatnonzero(names[trace.name]) if names.any() else np.zeros(0, np.int64)
    found: I64 = at[trace.kind[at] == Kind.ANNOTATION]
    return found
