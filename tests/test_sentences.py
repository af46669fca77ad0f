"""Where sentences for users are written: in the words of verbs, in show, rules, rewrites, errors and help texts."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "ortune"
CORE = ("measuring", "engines", "search", "outputs", "stats")
"""Rooms that give figures and codes."""
STEPS = "verbs"
"""A verb's words, page and options (the help) may write; its steps and results are counted."""
WORDS = re.compile(
    r"words|page|sections|options|_shared/common|headline|details|brief|remote_browser|other_providers|groups|spelling"
)
"""Files of verbs that are words: by their name, or by that of their folder."""
LEAST_WORDS = 4
NO_SENTENCES = ("Error", "__init__", "NotFound", "ErrorInfo", "Option", "Argument", "compile")
"""Ends of what is called with an error, the help of an option, or a regular expression; ``__init__`` is of an error."""
ELSEWHERE = {
    "search/phases.py": "the table of budget shares, which docs/budgets.md is made of",
    "search/figures.py": "the names of statistics, as documents have them",
    "measuring/failures.py": "errors of ONNX Runtime, with what to do about each",
    "measuring/broken_levels.py": "which sides do not run, and why: a part of errors",
    "outputs/metrics/accuracy.py": "what the metric takes: a part of errors",
    "outputs/metrics/boxes.py": "what the metric takes: a part of errors",
    "outputs/metrics/ctc.py": "what the metric takes: a part of errors",
    "outputs/metrics/perplexity.py": "what the metric takes: a part of errors",
    "engines/partitions/coreml.py": "the condition that a node breaks: a detail of the reason, which has a code",
    "engines/partitions/nnapi.py": "the same",
    "engines/partitions/xnnpack.py": "the same",
    "engines/conversion/kinds.py": "why a source is refused, and what to do: parts of errors",
    "engines/conversion/axes.py": "how to write a source again: parts of errors",
}
WRITTEN = {"measuring": 3, "engines": 36, "search": 9, "outputs": 33, "stats": 2, "verbs": 0}
"""Sentences that these rooms still write. A number falls with each that moves.

What is left are parts of fields of documents, whose schemas are published, and what precedes them:

- ``outputs``: how outputs differ (``OutputDifference.what``).
- ``engines``: how a conversion fails (``ConversionFault.what``, ``DynamicAxis.what``, ``CheckedCase.failed``), how it
  was checked (``ConvertedFrom.checked``), why a file in ORT format does not fit or gains nothing
  (``OrtConversion.against``, ``AwareFile.gains_nothing``), why nodes have no times or floors
  (``ProfileResult.no_peak``, ``unbounded``), how peaks were measured (``MachinePeak.how``), why a quantized model is no
  candidate (``PrecisionRow.why``), and the comment above code to paste.
- ``search``: where a plan comes from and why one is not tried (``origin``, ``not_tried``), and why a block does not
  count (``Block.dropped``).
- ``measuring``: notes of a workload (``Workload.notes``), and a label of a side.
- ``stats``: the note of a guard, and the name of an argument in errors.

What the core reports while it runs is a ``Message`` of ``records/messages.py``.
"""


def sentences(tree: ast.AST) -> Iterator[str]:
    """The texts of at least four words that are neither documentation nor part of an error."""
    of_errors = parts_of_errors(tree)
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if is_error(node) or id(node) in of_errors:
            continue
        # What to do about an error, with a name of its own before it is raised.
        if isinstance(node, ast.Assign) and _name(node.targets[0]) == "do":
            continue
        # A text by itself documents what it follows.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.JoinedStr | ast.Constant):
            text = _text(node)
            if len(re.findall(r"(?<![\w{])[a-z]+(?:'[a-z]+)?(?=[ ,:;.)]|$)", text)) >= LEAST_WORDS:
                yield text
            continue
        waiting += ast.iter_child_nodes(node)


def is_error(node: ast.AST) -> bool:
    """Whether an error is raised or made here, or a help text."""
    return isinstance(node, ast.Raise) or (
        isinstance(node, ast.Call) and _name(node.func).endswith(NO_SENTENCES)
    )


def parts_of_errors(tree: ast.AST) -> set[int]:
    """The assignments, by identity, of texts that have a name of their own before they are part of an error."""
    found: set[int] = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = {name for node in ast.walk(function) if is_error(node) for name in _names(node)}
        texts = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and _is_text(n.value)]
        texts = [n for n in texts if isinstance(n.targets[0], ast.Name | ast.Tuple)]
        while more := [a for a in texts if id(a) not in found and _names(a.targets[0]) <= names]:
            found |= {id(a) for a in more}
            names |= {name for a in more for name in _names(a.value)}
    return found


def _is_text(value: ast.AST) -> bool:
    if isinstance(value, ast.IfExp):
        return _is_text(value.body) and _is_text(value.orelse)
    if isinstance(value, ast.Tuple):
        return all(map(_is_text, value.elts))
    if isinstance(value, ast.BoolOp):
        return all(isinstance(part, ast.Name) or _is_text(part) for part in value.values)
    return isinstance(value, ast.JoinedStr | ast.Constant)


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.JoinedStr | ast.Constant) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "{}"
        for part in parts
    )


def written() -> dict[str, list[str]]:
    """The sentences that each room writes, of those that should write none, with their files."""
    found: dict[str, list[str]] = {room: [] for room in (*CORE, STEPS)}
    for room in (*CORE, STEPS):
        for file in sorted((PACKAGE / room).rglob("*.py")):
            if str(file.relative_to(PACKAGE)) in ELSEWHERE:
                continue
            if room == STEPS and WORDS.search(str(file.relative_to(PACKAGE / room))):
                continue
            texts = sentences(ast.parse(file.read_text(encoding="utf-8")))
            found[room] += [f"{file.relative_to(PACKAGE)}: {text}" for text in texts]
    return found


def test_the_core_and_the_steps_of_verbs_write_no_more_sentences() -> None:
    more = {room: found for room, found in written().items() if len(found) > WRITTEN[room]}
    said = "\n".join(sentence for found in more.values() for sentence in found)
    assert not more, f"one of these is new; give a code or a figure, and word it in verbs/*/words.py:\n{said}"


def test_a_sentence_is_found() -> None:
    text = '''
def f(names, n):
    """This says what the function is for."""
    raise UsageError("this is what went wrong here", do="pass another one of them")
    what = f"these {n} are too many of them"
    where = "a text that is passed on as it is"
    if n:
        raise UsageError(what)
    say(f"{n} of the {len(names)} models were skipped for lack of time", where)
    return {"a key": "of three words"}
'''
    assert list(sentences(ast.parse(text))) == [
        "{} of the {} models were skipped for lack of time",
        "a text that is passed on as it is",
    ]


DIALECT = re.compile(
    r"\b(beside|stands|tells|is told|are told|is asked|are asked|asked for|held against|nobody's)\b",
    re.IGNORECASE,
)
"""Words that documentation in the code does not use. Instead: "next to" or "in addition to" for "beside", "is",
"shows", "reports", "receives", "requested", "compared with"."""
DIALECT_LEFT = {"catalogue": 1, "records": 1, "show": 1}
"""Docstrings that contain one: each names the field or the argument ``beside``."""
DOCUMENTED_FOR_USERS = {"rules", "rewrites", "knobs", "providers"}
"""Rooms whose docstrings are pages of the documentation, which has its own test."""


def documented(text: str) -> Iterator[str]:
    """The docstrings of a module, and the strings that document what they follow."""
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value


def dialect() -> dict[str, list[str]]:
    """The uses of these words in the docstrings of each room, with their files."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room not in DOCUMENTED_FOR_USERS:
            texts = documented(file.read_text(encoding="utf-8"))
            found[room] += [
                f"{file.relative_to(PACKAGE)}: {word}" for t in texts for word in DIALECT.findall(t)
            ]
    return found


def test_docstrings_use_no_more_of_the_dialect() -> None:
    assert {room: uses for room, uses in dialect().items() if len(uses) > DIALECT_LEFT.get(room, 0)} == {}
