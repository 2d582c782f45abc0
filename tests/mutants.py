"""How well the tests notice a fault: change one thing in the program at random, and see whether a test fails.

    python tests/mutants.py --seed 1 --count 200 [--only trace analysis] [--jobs 2] [--again]

A mutant differs from the program in one place: a comparison, an operator, `and` for `or`, a `not`, a number
(by one, or a large one twofold), True for False, a whole condition, min for max, the side of a
`searchsorted`. Places are drawn evenly from all that there are, by a hash of what they say; texts,
annotations, decorators, assertions and `strict=` are left alone. Each mutant runs the tests that execute its
line, those that speak of the same first, then the test files in turn, until one fails, or for `--budget`
seconds. A mutant that hangs is killed as well. Prints those that no test noticed, and the share that was
killed by folder.

The program is never changed in place: everything happens in a copy of the tree, without the collection of
traces that may lie beside it, as in a clone. Which test executes which line is found out once per test file
and kept in the temporary folder. A mutant inside a function is made in a fork of a process that has collected
the tests, by exchanging the function's code; elsewhere pytest starts anew. `--again` runs only those that the
last run with the same seed, count and folder did not kill.

Mutants that no test can notice stand in equivalent_mutants.txt, each with its reason, and are not counted;
so do constants, by name, that only say how much is read or kept at a time: they change the speed alone.
"""

import argparse
import ast
import contextlib
import gc
import hashlib
import heapq
import inspect
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import coverage
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("src/tracetui")
ALL = ("formats", "trace", "analysis", "rules", "compare", "timeline", "views", "session")
FOLDERS = tuple(folder for folder in ALL if (ROOT / "tests" / folder).is_dir())
"""Folders of the package with tests of their own."""
TESTS = (
    "truth", "golden", "rules", "cli", "views", "session", "compare", "analysis", "timeline", "formats",
    "trace"
)  # fmt: skip
SLOW = ("test_fuzz.py", "test_gzip.py")
"""Test files that take longer than what they would find is worth."""
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")
STORE = Path(tempfile.gettempdir()) / f"tracetui-mutants-{os.getuid()}"
FIRST = 24
"""So many tests are run for their words."""
CUT_SHORT = 75
"""The exit status where the budget ended before the tests did."""

COMPARISONS = {
    ast.Lt: ("<=", ">"), ast.LtE: ("<", ">"), ast.Gt: (">=", "<"), ast.GtE: (">", "<"), ast.Eq: ("!=",),
    ast.NotEq: ("==",), ast.In: ("not in",), ast.NotIn: ("in",), ast.Is: ("is not",), ast.IsNot: ("is",)
}  # fmt: skip
OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*",
    ast.LShift: ">>", ast.RShift: "<<", ast.BitAnd: "|", ast.BitOr: "&", ast.BitXor: "&"
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}
SIDES = {"left": '"right"', "right": '"left"'}


@dataclass(frozen=True)
class Mutant:
    """One change: the text from `begin` to `end` (characters of the file) becomes `text`."""

    path: str
    begin: int
    end: int
    text: str
    first: int
    """The first and the last line of what is changed, from 1."""
    last: int
    function: bool
    """Whether it lies in a function's body: then it can be made in a running process."""
    top: str
    """The name that the outermost statement around it gives to something, or ""."""
    before: str
    """The source lines that change, as one line, and what they become."""
    after: str

    @property
    def key(self) -> tuple[str, str, str]:
        return Path(self.path).name, self.before, self.after


class Places(ast.NodeVisitor):
    """Collects the mutants of one file."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.source, self.found = path, source, list[tuple[Mutant, ...]]()
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.inside = False
        self.top = ""
        for statement in ast.parse(source).body:
            target: Any = getattr(statement, "target", None) or getattr(statement, "targets", [None])[0]
            self.top = getattr(statement, "name", "") or getattr(target, "id", "")
            self.visit(statement)

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends, in characters of the file."""
        n: Any = node
        return self.at(n.lineno, n.col_offset), self.at(n.end_lineno, n.end_col_offset)

    def add(self, node: ast.AST, begin: int, end: int, *texts: str) -> None:
        """A place, and what may stand there instead."""
        n: Any = node
        first = self.source.count("\n", 0, begin) + 1
        last = self.source.count("\n", 0, end) + 1
        old = self.source[self.starts[first - 1] : self.starts[last]]

        def made(text: str) -> Mutant:
            text += "\n" * (last - first - text.count("\n"))  # so that no line moves
            text = f"({text})" if "\n" in text else text
            new = self.source[self.starts[first - 1] : begin] + text + self.source[end : self.starts[last]]
            shown = (" ".join(t.split()) for t in (old, new))
            return Mutant(self.path, begin, end, text, n.lineno, n.end_lineno, self.inside, self.top, *shown)

        self.found.append(tuple(map(made, texts)))

    def between(self, node: ast.AST, left: ast.AST, right: ast.AST, pattern: str, *texts: str) -> None:
        """The operator that stands between two operands."""
        low, high = self.span(left)[1], self.span(right)[0]
        match = re.search(pattern, re.sub(r"#.*", lambda m: " " * len(m[0]), self.source[low:high]))
        assert match, (self.path, self.source[low:high], pattern)
        self.add(node, low + match.start(), low + match.end(), *texts)

    def condition(self, test: ast.expr) -> None:
        """A whole condition that holds always, or never."""
        if not isinstance(test, ast.Constant) and ast.unparse(test) != "TYPE_CHECKING":
            self.add(test, *self.span(test), "True", "False")

    def function(self, node: Any) -> None:
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d)):
            self.visit(default)
        outside, self.inside = self.inside, True
        for part in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(part)
        self.inside = outside

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if ast.unparse(node.targets[0]) != "__all__":
            self.visit(node.value)
            for target in node.targets:
                self.visit(target)

    def nothing(self, node: ast.AST) -> None:
        pass

    visit_Assert = visit_JoinedStr = visit_Import = visit_ImportFrom = nothing

    def visit_If(self, node: Any) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.condition(node.test)
            self.generic_visit(node)

    visit_IfExp = visit_If

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.condition(test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            pattern = r"not\s+in|is\s+not|in\b|is\b|[<>=!]=|[<>]"
            self.between(node, left, right, pattern, *COMPARISONS[type(op)])
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = (ast.JoinedStr, ast.Constant)
        sides = (node.left, node.right)
        if not any(isinstance(s, texts) and not _number(s) for s in sides) and type(node.op) in OPERATORS:
            self.between(node, *sides, r"\*\*|//|<<|>>|[-+*/%&|^]", OPERATORS[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in OPERATORS:
            self.between(node, node.target, node.value, r"[^\s=]+(?==)", OPERATORS[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = (r"\band\b", "or") if isinstance(node.op, ast.And) else (r"\bor\b", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(node, left, right, old, new)
        for value in node.values:  # one of several conditions less
            if ast.unparse(value) not in ("0", "0.0"):  # it counts as False
                self.add(node, *self.span(value), "True" if new == "or" else "False")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        begin, end = self.span(node)
        self.add(
            node, begin, end,
            {ast.Not: "", ast.USub: "+", ast.Invert: "", ast.UAdd: "-"}[type(node.op)]
            + self.source[slice(*self.span(node.operand))]
        )  # fmt: skip
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.add(node, *self.span(node), str(not node.value))
        elif _number(node):
            value: Any = node.value
            nearby = (value + 1, value - 1)
            if isinstance(value, float) or abs(value) > 16:
                nearby = (value * 2 or 1.0, type(value)(value / 2) or -1.0)
            self.add(node, *self.span(node), *map(repr, nearby))

    def visit_keyword(self, node: ast.keyword) -> None:
        value = node.value
        if node.arg == "side" and isinstance(value, ast.Constant) and isinstance(value.value, str):
            self.add(node, *self.span(value), SIDES[value.value])
        elif node.arg != "strict":
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in NAMES:
            self.add(node, *self.span(node), NAMES[node.id])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in NAMES:
            end = self.span(node)[1]
            self.add(node, end - len(node.attr), end, NAMES[node.attr])
        self.generic_visit(node)


def _number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def draw(seed: int, count: int, only: list[str]) -> list[Mutant]:
    """`count` mutants, drawn evenly from the places of the program."""
    places: list[tuple[Mutant, ...]] = []
    for folder in FOLDERS:
        for path in sorted((ROOT / PACKAGE / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(tuple((PACKAGE / part).as_posix() for part in only or [""])):
                places += Places(name, path.read_text(encoding="utf-8")).found
    print(f"{len(places):,} places", flush=True)
    # By what a place says, not by its number: a change of the program changes few of those that are drawn.
    seen = Counter[str]()
    ranked: list[tuple[bytes, Mutant]] = []
    for place in places:
        says = f"{seed} {place[0].path} {place[0].before} {place[0].after}"
        seen[says] += 1
        drawn = hashlib.sha256(f"{says} {seen[says]}".encode()).digest()
        ranked.append((drawn, place[drawn[-1] % len(place)]))
    return [mutant for _, mutant in heapq.nsmallest(count, ranked, key=lambda one: one[0])]


def equivalents() -> Callable[[Mutant], bool]:
    """Whether a mutant is no fault. The file has blocks of `file`, `- before`, `+ after` and a reason, and
    blocks of `file`, `= constant` and a reason."""
    text = EQUIVALENT.read_text(encoding="utf-8") if EQUIVALENT.exists() else ""
    blocks = re.findall(r"^(\S+\.py)\n- (.*)\n\+ (.*)\n\S", text, re.MULTILINE)
    constants = set(re.findall(r"^(\S+\.py)\n= (.*)\n\S", text, re.MULTILINE))
    keys = set(blocks)
    return lambda m: m.key in keys or (not m.function and (m.key[0], m.top) in constants)


def copy_tree(to: Path) -> None:
    """What git knows of the tree, what it does not ignore, and the compiled libraries: into a folder with
    nothing beside it."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard", "src", "tests", "sample_traces", "pyproject.toml"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    compiled = [str(path.relative_to(ROOT)) for path in (ROOT / PACKAGE).glob("**/*.native.*")]
    for name in filter(None, [*listed.stdout.split("\0"), *compiled]):
        if (ROOT / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def run_pytest(tree: Path, arguments: Iterable[str], plugin: object) -> int:
    """pytest inside this process, with the package of the copied tree."""
    from hypothesis import Phase, settings

    os.chdir(tree)
    sys.path[:0] = [str(tree / "src"), str(tree)]
    os.environ["PYTHONPATH"] = f"{tree / 'src'}{os.pathsep}{tree}"
    settings.register_profile(
        "mutants", derandomize=True, database=None, deadline=None, phases=(Phase.explicit, Phase.generate)
    )
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    fixed = ("-n", "0", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-o", "addopts=")
    return int(pytest.main([*fixed, "--import-mode=importlib", *arguments], plugins=[plugin]))


def forked(work: Callable[[], int], log: Path) -> int:
    """Run `work` in a process of its own that writes to `log`; its exit status, negative for a signal."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        status = 70
        try:
            os.setsid()
            output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            status = work()
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what it has started, too
    return os.waitstatus_to_exitcode(status)


class Recorder:
    """A pytest plugin that notes which lines of the program each test executes, and how long it takes."""

    def __init__(self, tree: Path, places: dict[str, Path]) -> None:
        self.tree = tree
        self.places = places
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def begin(self) -> None:
        """Count the lines of one more test file."""
        self.coverage = coverage.Coverage(None, source=[str(self.tree / PACKAGE)], config_file=False)
        self.coverage.set_option("run:core", "ctrace")  # the one that knows which test runs
        self.coverage.start()

    def end(self, place: Path) -> None:
        """Keep what has been found about a test file."""
        self.coverage.stop()
        found = self.coverage.get_data()
        lines: dict[str, dict[str, list[int]]] = {test: {} for test in self.seconds}
        for path in found.measured_files():
            name = Path(path).relative_to(self.tree).as_posix()
            for line, tests in found.contexts_by_lineno(path).items():
                for test in tests:
                    if test in lines:
                        lines[test].setdefault(name, []).append(line)
        known = {
            t: {"seconds": s, "lines": lines[t]} for t, s in self.seconds.items() if t not in self.failed
        }
        place.write_text(json.dumps(known))
        self.seconds = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not inspect.iscoroutinefunction(getattr(item, "obj", None))]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        if not self.seconds:
            self.begin()
        self.coverage.switch_context(item.nodeid)
        begun = time.process_time()
        yield
        self.seconds[item.nodeid] = round(time.process_time() - begun, 4)
        file = item.nodeid.split("::")[0]
        if nextitem is None or nextitem.nodeid.split("::")[0] != file:
            self.end(self.places.pop(file))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        for place in self.places.values() if exitstatus in (0, 1, 5) else ():
            place.write_text("{}")  # nothing but tests that start the app

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.failed.add(report.nodeid)


Map = dict[str, dict[str, Any]]


def coverage_map(only: list[str], jobs: int) -> Map:
    """What each test executes: {test: {"seconds": float, "lines": {file: [line, ...]}}}; those that pass."""
    mine = {part.split("/")[0] for part in only} or {*FOLDERS}
    folders = [
        folder for folder in TESTS if folder != "formats" or folder in mine
    ]  # slow, and its own subject
    files = [f for folder in folders for f in sorted((ROOT / "tests" / folder).rglob("test_*.py"))]
    # Of the app's own tests those that start no app: see `Recorder`.
    files = [f for f in (*files, *sorted((ROOT / "tests" / "tui").glob("test_*.py"))) if f.name not in SLOW]
    shared = sorted((ROOT / PACKAGE).rglob("*.py"))
    shared += [f for f in sorted((ROOT / "tests").rglob("*.py")) if not f.name.startswith("test_")]
    shared.remove(Path(__file__).resolve())
    state = hashlib.sha1(b"".join(f.read_bytes() for f in shared))
    store = STORE / "map"
    store.mkdir(parents=True, exist_ok=True)
    places: dict[str, Path] = {}
    for file in files:
        relative = file.relative_to(ROOT).as_posix()
        name = hashlib.sha1(b"\0".join((state.digest(), relative.encode(), file.read_bytes()))).hexdigest()
        places[relative] = store / f"{name}.json"
    missing = [name for name, place in places.items() if not place.exists()]
    if missing:
        print(f"which lines {len(missing)} test files execute...", flush=True)

        def some(i: int) -> None:
            mine = missing[i::jobs]
            with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
                tree = Path(temporary).resolve() / "clone"
                copy_tree(tree)
                recorder = Recorder(tree, {name: places[name] for name in mine})
                forked(lambda: run_pytest(tree, mine, recorder), STORE / f"map-{i}.log")

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(some, range(jobs)))
    result: Map = {}
    for name, place in places.items():
        if not place.exists():
            print(f"no test of {name} could be run: see {STORE}/map-*.log")
        else:
            result |= json.loads(place.read_text())
    return result


def words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]{4,}", text))


class Choice:
    """Which tests may notice a mutant."""

    def __init__(self, tests: Map) -> None:
        self.tests = tests
        self.of_line: dict[tuple[str, int], list[str]] = {}
        self.of_file: dict[str, set[str]] = {}
        for test, known in tests.items():
            for name, lines in known["lines"].items():
                self.of_file.setdefault(name, set()).add(test)
                for line in lines:
                    self.of_line.setdefault((name, line), []).append(test)
        files = {test.split("::")[0] for test in tests}
        self.test_texts = {n: (ROOT / n).read_text(encoding="utf-8") for n in files}
        self.texts = {n: (ROOT / n).read_text(encoding="utf-8").splitlines() for n in self.of_file}
        self.words: dict[str, set[str]] = {}
        """The words of each test function, and how many of those functions have a word."""
        for name, text in self.test_texts.items():
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    self.words[f"{name}::{node.name}"] = words(ast.get_source_segment(text, node) or "")
        self.with_word = Counter(word for found in self.words.values() for word in found)

    def alike(self, mutant: Mutant, tests: set[str]) -> list[str]:
        """The tests that share most words with the lines around a mutant; rare words count more."""
        text = "\n".join(self.texts[mutant.path][max(0, mutant.first - 8) : mutant.last + 8])
        weights = {w: math.log(len(self.words) / n) for w in words(text) if (n := self.with_word[w])}

        def score(test: str) -> float:
            found = self.words.get(test.partition("[")[0], set())
            return sum(weight for word, weight in weights.items() if word in found)

        return heapq.nlargest(FIRST, tests, key=lambda test: (score(test), test))

    def __call__(self, mutant: Mutant) -> list[str]:
        """Those that execute the line; for a constant those that execute a line with its name, or whose file
        imports its module; then those that execute anything of its file. First come those whose text is about
        the same; then all test files take turns, for as long as the time of each is, the mutant's own folder
        twice as often, and the shortest tests first."""
        lines = range(mutant.first, mutant.last + 1)
        near = {t for line in lines for t in self.of_line.get((mutant.path, line), ())}
        far: set[str] = set()
        if not mutant.function or not near:
            far = self.of_file.get(mutant.path, set())
        if not mutant.function:
            module = mutant.path.removeprefix("src/").removesuffix(".py").replace("/", ".")
            near |= {test for test in self.tests if module in self.test_texts[test.split("::")[0]]}
            word = re.compile(rf"\b{mutant.top}\b")
            for path, text in self.texts.items() if mutant.top else ():
                used = [i for i, line in enumerate(text, 1) if word.search(line)]
                near |= {t for i in used for t in self.of_line.get((path, i), ())}
        own = f"tests/{mutant.path.split('/')[2]}/"

        def in_turn(tests: set[str]) -> list[str]:
            spent, turn = Counter[str](), dict[str, float]()
            for test in sorted(tests, key=lambda test: (self.tests[test]["seconds"], test)):
                file = test.split("::")[0]
                spent[file] += self.tests[test]["seconds"] * (1 if test.startswith(own) else 2)
                turn[test] = spent[file]
            return sorted(tests, key=lambda test: turn[test])

        first = self.alike(mutant, near or far) if mutant.path in self.texts else []
        return list(dict.fromkeys([*first, *in_turn(near), *in_turn(far - near)]))


def exchange(path: Path, source: str) -> None:
    """Give every function of a file that has been imported the code that `source` has for it."""
    live: dict[tuple[str, int], list[FunctionType]] = {}
    gc.unfreeze()  # what conftest.py has set aside would not be found
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and thing.__code__.co_filename == str(path):
            code = thing.__code__
            live.setdefault((code.co_name, code.co_firstlineno), []).append(thing)

    def walk(code: CodeType) -> None:
        for function in live.get((code.co_name, code.co_firstlineno), ()):
            if function.__code__ != code and function.__code__.co_freevars == code.co_freevars:
                function.__code__ = code
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                walk(constant)

    walk(compile(source, str(path), "exec"))


class Server:
    """A pytest plugin that, in place of running the tests, runs those of one mutant after the other."""

    def __init__(self, tree: Path, mutants: list[Mutant], choose: Choice, budget: float, log: Path) -> None:
        self.tree, self.mutants, self.choose, self.budget, self.log = tree, mutants, choose, budget, log

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for mutant in self.mutants:
            begun = time.perf_counter()
            chosen = self.choose(mutant)
            source = (ROOT / mutant.path).read_text(encoding="utf-8")
            changed = source[: mutant.begin] + mutant.text + source[mutant.end :]
            (self.tree / mutant.path).write_text(changed, encoding="utf-8")
            if mutant.function and chosen:
                running = [items[test] for test in chosen if test in items]
                status = forked(lambda m=mutant, c=changed, r=running: self.run(m, c, r), self.log)  # type: ignore[misc]
            else:
                status = self.start(chosen) if chosen else 0
            (self.tree / mutant.path).write_text(source, encoding="utf-8")
            cut = status == CUT_SHORT
            result = asdict(mutant) | {"tests": len(chosen), "status": 0 if cut else status, "cut": cut}
            with self.log.with_suffix(".jsonl").open("a") as file:
                print(json.dumps(result | {"seconds": round(time.perf_counter() - begun, 2)}), file=file)
        return True

    def run(self, mutant: Mutant, source: str, items: list[pytest.Item]) -> int:
        """Run tests in this process, which is a fork: 1 as soon as one fails, CUT_SHORT at the end of the
        budget."""
        from _pytest.runner import runtestprotocol

        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        for number in (signal.SIGALRM, signal.SIGPROF):  # the end of one that hangs
            signal.signal(number, signal.SIG_DFL)
        exchange(self.tree / mutant.path, source)
        end = time.process_time() + self.budget
        for i, item in enumerate(items):
            seconds = 10 + 5 * self.choose.tests[item.nodeid]["seconds"]
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.alarm(int(10 * seconds))
            following = items[i + 1] if i + 1 < len(items) else None
            if any(r.failed for r in runtestprotocol(item, log=False, nextitem=following)):
                return 1
            if following and time.process_time() > end:
                return CUT_SHORT
        return 0

    def start(self, chosen: list[str]) -> int:
        """The same in a Python of its own, for what happens at import."""
        costs, taken = 0.0, list[str]()
        for test in chosen:
            costs += self.choose.tests[test]["seconds"]
            taken.append(test)
            if (
                costs > 3 * self.budget
            ):  # what was measured while lines were recorded is several times too much
                break
        code = "import sys; from mutants import main_of_tests; sys.exit(main_of_tests())"
        environment = os.environ | {"PYTHONPATH": f"{os.environ['PYTHONPATH']}:{Path(__file__).parent}"}
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment, cwd=self.tree, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            process.communicate("\n".join(taken), timeout=6 * self.budget + 60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode or (CUT_SHORT if len(taken) < len(chosen) else 0)


def main_of_tests() -> int:
    """pytest in the current folder, with the tests that standard input names."""
    chosen = sys.stdin.read().split("\n")
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))

    class Filter:
        """Names on the command line would be too many."""

        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            place = {test: i for i, test in enumerate(chosen)}
            items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])

    files = sorted({test.split("::")[0] for test in chosen})
    return run_pytest(Path.cwd(), ["-x", *files], Filter())


def serve(mutants: list[Mutant], choose: Choice, budget: float, log: Path) -> None:
    """Run mutants one after the other in a copied tree of their own; results go to `log`.jsonl."""
    log.with_suffix(".jsonl").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        tree = Path(temporary).resolve() / "clone"
        copy_tree(tree)
        os.environ["PYTHONDONTWRITEBYTECODE"] = "never"  # conftest.py keeps to it
        sys.dont_write_bytecode = True
        server = Server(tree, mutants, choose, budget, log)
        run_pytest(tree, sorted({test.split("::")[0] for test in choose.tests}), server)


def report(results: list[dict[str, Any]], excused: int) -> None:
    for result in sorted((r for r in results if not r["status"]), key=lambda r: (r["path"], r["first"])):
        ran = f"{result['tests']} tests" if result["tests"] else "no test runs this"
        ran += ", not all for want of time" if result["cut"] else ""
        print(f"{result['path']}:{result['first']}  ({ran})\n- {result['before']}\n+ {result['after']}\n")
    folders = Counter(r["path"].split("/")[2] for r in results)
    killed = Counter(r["path"].split("/")[2] for r in results if r["status"])
    for folder, count in folders.items():
        print(f"{folder:10} {killed[folder]:4} of {count:4}  {killed[folder] / count:.0%}")
    total = killed.total()
    print(f"{'all':10} {total:4} of {len(results):4}  {total / max(1, len(results)):.0%}")
    print(f"{excused} equivalent ones not counted; {sum(r['seconds'] for r in results):.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", nargs="+", default=[], help="folders or files below src/tracetui")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--budget", type=float, default=20, help="CPU seconds of tests per mutant")
    parser.add_argument("--again", action="store_true", help="only those that the last run did not kill")
    options = parser.parse_args()
    mutants = draw(options.seed, options.count, options.only)
    known = equivalents()
    every = len(mutants)
    mutants = [m for m in mutants if not known(m)]
    excused = every - len(mutants)
    choose = Choice(coverage_map(options.only, options.jobs))
    folders = "+".join(options.only).replace("/", "-")
    last = STORE / f"last-{options.seed}-{options.count}-{folders}.json"
    before: dict[tuple[str, str, str], dict[str, Any]] = {}
    if options.again and last.exists():
        done = [r for r in json.loads(last.read_text()) if r["status"]]
        before = {(Path(r["path"]).name, r["before"], r["after"]): r for r in done}
    left = [m for m in mutants if m.key not in before]
    logs = [STORE / f"job-{os.getpid()}-{i}" for i in range(options.jobs)]

    def one(i: int) -> None:
        mine = left[i :: options.jobs]
        forked(lambda: serve(mine, choose, options.budget, logs[i]) or 0, logs[i].with_suffix(".out"))

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, range(options.jobs)))
    results = [before[m.key] for m in mutants if m.key in before]
    for log in logs:
        results += map(json.loads, log.with_suffix(".jsonl").read_text().splitlines())
    last.write_text(json.dumps(results))
    report(results, excused)


if __name__ == "__main__":
    main()
