"""Counts the places in which one kind of knowledge stands, so that a change of the structure shows what it did.

    python tools/count_places.py [--root src/ortune] [--tests tests] [--names]

Prints Markdown: places, then lines of each room. ``--names`` lists the files behind each number.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
ROOT, TESTS = PROJECT / "src" / "ortune", PROJECT / "tests"
MADE_BY_HAND = ("Measuring", "Envelope", "Facts", "Executor", "Halving", "ToolProcess", "Budget")
"""Constructors whose calls are counted: each call is a place that knows how the thing is put together."""
VAGUE = ("found", "each", "made", "given", "told", "seen", "held", "known")
"""Participles and pronouns that stand where a noun would say what the value is."""
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
PROVIDER = re.compile(
    r"^(\w+ExecutionProvider|cuda|tensorrt|tensorrt_rtx|openvino|webgpu|webnn|wasm|qnn|coreml|nnapi|xnnpack|directml|dml|"
    r"migraphx|rocm|dnnl)$"
)
SENTENCE = re.compile(r"[a-z]+ [a-z]+ [a-z]+ [a-z]+")
"""Four words in a row: what somebody is to read."""
LONG = 400


def literals(tree: ast.AST) -> Iterator[str]:
    """Every string but docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    # A string below an attribute is its documentation.
    docstrings |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def assigned(tree: ast.AST) -> Iterator[str]:
    """Every name that something is assigned to: by a statement, a loop, a comprehension, or as an argument."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def called(tree: ast.AST) -> Iterator[str]:
    """What is called by a plain name, or as a member of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            yield function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def pinned(tree: ast.AST) -> Iterator[str]:
    """Every sentence that a test demands word by word: in an assertion, or as a fact of a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            demanded: ast.AST = node.test
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "facts":
            demanded = node
        else:
            continue
        yield from (text for text in literals(demanded) if SENTENCE.search(text))


def expected_errors(tree: ast.AST) -> Iterator[str]:
    """Every sentence by which a test recognises an error: the ``match`` of ``pytest.raises``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "match":
            yield from (text for text in literals(node.value) if SENTENCE.search(text))


def comment_lines(text: str) -> int:
    """Lines that hold a comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return len({token.start[0] for token in tokens if token.type == tokenize.COMMENT})


class Places:
    """What is counted over all files, each number with the files behind it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.counts: Counter[str] = Counter()
        self.files: dict[str, Counter[str]] = {}
        self.lines: Counter[str] = Counter()
        self.comments = 0
        for path in sorted(root.rglob("*.py")):
            self._read(path)

    def add_tests(self, root: Path) -> None:
        """Counts what tests repeat of the code: its sentences, and how a model is put together."""
        for path in sorted(root.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            tree, file = ast.parse(text), str(path.relative_to(root))
            self._count("tests: sentences pinned by assertions", file, len(list(pinned(tree))))
            self._count("tests: sentences that recognise an error", file, len(list(expected_errors(tree))))
            self._count("tests: calls of `make_model(`", file, Counter(called(tree))["make_model"])
            self._count(f"tests: modules of more than {LONG} lines", file, int(text.count("\n") > LONG))

    def _count(self, what: str, file: str, n: int = 1) -> None:
        if n:
            self.counts[what] += n
            self.files.setdefault(what, Counter())[file] += n

    def _read(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        tree, file = ast.parse(text), str(path.relative_to(self.root))
        room = file.split("/", maxsplit=1)[0].removesuffix(".py")
        n_lines = text.count("\n")
        self.lines[room] += n_lines
        self.comments += comment_lines(text)
        calls = Counter(called(tree))
        for name in MADE_BY_HAND:
            self._count(f"calls of `{name}(`", file, calls[name])
        names = Counter(assigned(tree))
        for name in VAGUE:
            self._count("vague names assigned", file, names[name])
        if room != "worker" and any(
            isinstance(n, ast.Attribute) and n.attr in CLOCKS for n in ast.walk(tree)
        ):
            self._count("files with a monotonic clock, the worker apart", file)
        strings = list(literals(tree))
        if room not in ("catalogue", "targets", "worker") and any(PROVIDER.match(each) for each in strings):
            self._count("files with a provider's name, catalogue, targets and worker apart", file)
        if room not in ("report", "rules", "rewrites", "errors"):
            self._count(
                "sentences outside of report, rules, rewrites and errors",
                file,
                sum(bool(SENTENCE.search(each)) for each in strings),
            )
        self._count(f"modules of more than {LONG} lines", file, int(n_lines > LONG))


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--tests", type=Path, default=TESTS)
    parser.add_argument("--names", action="store_true")
    asked = parser.parse_args()
    places = Places(asked.root)
    places.add_tests(asked.tests)
    print("| what | places |\n|---|---:|")
    for what, n in sorted(places.counts.items()):
        print(f"| {what} | {n} |")
        if asked.names:
            for file, times in places.files[what].most_common():
                print(f"|   {file} | {times} |")
    total = places.lines.total()
    print(f"| lines | {total:,} |\n| comment lines | {100 * places.comments / total:.1f} % |")
    print("\n| room | lines |\n|---|---:|")
    for room, n in places.lines.most_common():
        print(f"| {room} | {n:,} |")


if __name__ == "__main__":
    main()
