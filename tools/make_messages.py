"""Write ``docs/messages.md``: every sentence that ortune can say, on one page, room by room.

Findings are real: each rule runs on the model that its test shows. All other sentences are read from the source, with
their placeholders in braces.

python tools/make_messages.py
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import onnx

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "ortune"
PAGE = ROOT / "docs" / "messages.md"
sys.path[:0] = [str(ROOT / "tests" / "rules"), str(ROOT / "tests")]

from rule_examples import EXAMPLES  # noqa: E402
from rule_facts import HOST  # noqa: E402

from ortune import api, rules  # noqa: E402
from ortune.catalogue import files  # noqa: E402
from ortune.graph.model.open import open_model  # noqa: E402
from ortune.inputs import workload  # noqa: E402
from ortune.inputs.run_cost import run_cost  # noqa: E402
from ortune.records import Finding  # noqa: E402
from ortune.rules import Facts, Rule, expected_gains  # noqa: E402
from ortune.show import finding_words  # noqa: E402
from ortune.verbs._shared.spelling import option_fields  # noqa: E402

HEAD = """# Messages

The sentences that ortune can print, and a few that it recognises in the errors of ONNX Runtime. This page is
generated: findings by running each rule on the model of its test, all others from the source. Braces, and %s, %d and
%r, mark what is filled in; {a|b} is singular or plural.

"""
ROOMS = ("rules", "rewrites", "catalogue", "words", "errors", "help", "elsewhere")
CODE = re.compile(
    r"ir_version|opset_import|^\s*(SELECT|INSERT|CREATE|UPDATE|DELETE|PRAGMA|BEGIN)\b|^[#<]|;\n|\{\n|\(\?"
)
SNIPPET = re.compile(
    r"^import (\* as )?\w+(\s+(as|if|from)\b|,|$)|^from \S*\.|^(def|try) [\w.]+(\(|$)|^(RUN|CMD|FROM) |^find /"
    r"|^(d|options|ort|run_options|wanted)\.\w+|^(not \w+|threads)\(|^\(cache|^\w+ = |&&|\.concat\(\)|\[\[\w"
    r"|(int|str) \| |^\^|\w\|\w|\(\\d| in (\(d|os)\.|^Default/"
)
PLACEHOLDER = 24
LIST = 5
COMMON = frozenset(
    [
        *(
            "a",
            "an",
            "and",
            "are",
            "as",
            "at",
            "by",
            "for",
            "from",
            "in",
            "is",
            "it",
            "no",
            "not",
            "of",
            "on",
        ),
        *("or", "that", "the", "to", "with", "your"),
    ]
)
WORDS = 3
CATALOGUE = {
    name: [provider, files.setting_tables()[name]] for name, provider in files.provider_tables().items()
}
ERRORS = re.compile(r"(\w+Error|\w+NotFound|\w+Failed|Interrupted|refused?)$")
NO_WORDS = ("class_", "enough", "flags", "style")
"""Keyword arguments that hold a style, an expression or names."""
INTERNAL = ("AssertionError", "ValueError", "TypeError", "KeyError", "RuntimeError", "NotImplementedError")


def page() -> str:
    """The whole page."""
    sentences = {room: list(lines) for room, lines in _by_room()}
    parts = [HEAD, "## Findings\n\n", *map(_rule, rules.all_rules().values())]
    parts += ["## Help\n\n", *map(_help, api.verbs())]
    for room in ROOMS:
        if room in sentences:
            parts += [f"## {room.capitalize()}\n\n", *_files(sentences[room])]
    return re.sub(r"\n{3,}", "\n\n", "".join(parts)).rstrip() + "\n"


def _rule(rule: Rule) -> str:
    with tempfile.TemporaryDirectory() as folder:
        lines = [line for finding in findings(rule, Path(folder)) for line in _finding(finding)]
    return f"### {rule.code} {rule.name}\n\n" + "".join(f"- {line}\n" for line in lines) + "\n"


def findings(rule: Rule, folder: Path) -> tuple[Finding, ...]:
    """What a rule says of its bad example, with the estimate where there is a model."""
    if rule.bad is None:
        facts = EXAMPLES[rule.code].bad(folder)
    else:
        onnx.save(rule.bad(), folder / "m.onnx")
        facts = Facts(model=open_model(folder / "m.onnx"), host=HOST, target=rule.target)
    found = tuple(rule.findings(facts))
    if facts.model is None or not any(finding.plan and finding.plan.rewrites for finding in found):
        return found
    work = workload.propose(facts.model.ir)
    return (
        expected_gains.estimated(found, facts.model.ir, run_cost(facts.model.ir, work)[1])
        if work.cases
        else found
    )


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity}: {finding.what}{finding_words.places(finding)}"
    command = finding_words.measurable([finding], ["model.onnx"])[0].fix
    for name, text in (
        ("evidence", finding.evidence),
        ("fix", finding.fix),
        ("measure", command if command != finding.fix else ""),
        ("", finding_words.estimate(finding)),
    ):
        if text:
            yield f"{name}: {text}" if name else text


def _help(verb: str) -> str:
    options: Any = importlib.import_module(f"ortune.verbs.{verb}.options").Options
    lines = [f"### ortune {verb}\n\n{inspect.getdoc(options)}\n\n"]
    for each in option_fields(options):
        if each.spelling is not None:
            spelled = each.spelling
            flag = getattr(spelled, "flag", "")
            lines.append(f"- `{' '.join(filter(None, (flag, spelled.metavar)))}`: {spelled.help}\n")
    return "".join([*lines, "\n"])


def _by_room() -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    found = [
        (room, str(path.relative_to(SOURCE)), text)
        for path in sorted(SOURCE.rglob("*.py"))
        for room, text in sentences_of(path)
    ]
    for name, rows in CATALOGUE.items():
        found += [("catalogue", f"catalogue/{name}.toml", text) for text in _said(rows) if _is_sentence(text)]
    for room, group in groupby(sorted(found, key=lambda each: (each[0], each[1])), key=lambda each: each[0]):
        yield room, ((name, text) for _, name, text in group)


def _said(part: object) -> Iterator[str]:
    """The texts of a part of the catalogue, apart from documentation and the code of questions to a browser."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for name, value in part.items():
            if name not in ("documentation", "question"):
                yield from _said(value)
    elif isinstance(part, list):
        for value in part:
            yield from _said(value)


def _files(lines: list[tuple[str, str]]) -> Iterator[str]:
    for name, group in groupby(lines, key=lambda each: each[0]):
        texts = dict.fromkeys(text for _, text in group)
        yield f"### {name}\n\n" + "".join(f"- {text}\n" for text in texts) + "\n"


def worded(path: Path) -> bool:
    """Returns whether a module is one of those that hold a verb's sentences, or what all verbs say."""
    folder = path.relative_to(SOURCE).parts[0]
    return folder == "show" or (
        folder == "verbs" and "ortune.show.document" in path.read_text(encoding="utf-8")
    )


def sentences_of(path: Path) -> Iterator[tuple[str, str]]:
    """(room, sentence) of every literal of a module that reads like one; docstrings and code are none."""
    folder = path.relative_to(SOURCE).parts[0]
    room = (
        "words" if worded(path) else folder if folder in ("rules", "rewrites", "catalogue") else "elsewhere"
    )
    yield from _walked(ast.parse(path.read_text(encoding="utf-8")), room)


def _walked(node: ast.AST, room: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Call):
        if text := _amount(node):
            if _is_sentence(text):
                yield room, text
            return
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in INTERNAL or name in ("Option", "Argument", "compile", "cast", "Path"):
            return
        room = "errors" if ERRORS.search(name) and room == "elsewhere" else room
    if isinstance(node, ast.Assert) or (isinstance(node, ast.keyword) and node.arg in NO_WORDS):
        return
    if isinstance(node, ast.Constant | ast.JoinedStr):
        text = _text(node)
        if text is not None and _is_sentence(text):
            yield room, " ".join(text.split())
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for part in parts:
            if isinstance(part, ast.FormattedValue):
                yield from _walked(part.value, room)
        return
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield from _walked(child, room)


def _text(node: ast.Constant | ast.JoinedStr) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    return "".join(
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else _placeholder(part)
        for part in node.values
    )


def _placeholder(part: ast.expr) -> str:
    assert isinstance(part, ast.FormattedValue)
    if isinstance(part.value, ast.Call) and (amount := _amount(part.value)):
        return amount
    text = ast.unparse(part.value).replace("\n", " ")
    return f"{{{text}}}" if len(text) <= PLACEHOLDER and "'" not in text else "{...}"


def _amount(call: ast.Call) -> str:
    """A number and its noun, as ``printable.amount`` writes them; "" for any other call."""
    nouns = [each.value for each in call.args[1:] if isinstance(each, ast.Constant)]
    if ast.unparse(call.func) != "amount" or not nouns:
        return ""
    number, one, several = ast.unparse(call.args[0]), nouns[0], nouns[1] if nouns[1:] else f"{nouns[0]}s"
    return f"{{{number}}} {{{one}|{several}}}"


def _is_sentence(text: str) -> bool:
    text = re.sub(r"\{([^{}|]*[^{}| ])\|[^{}| ][^{}]*\}", r"\1", text)
    plain = re.sub(r"\{[^}]*\}", "", text)
    if len(plain.split()) > LIST and not COMMON & set(plain.split()):
        return False  # names of operators or attributes
    if all(re.fullmatch(r"[A-Z][A-Za-z0-9]*", word) for word in plain.split()):
        return False  # names of operators
    if len(plain.split()) > LIST and sum("_" in word for word in plain.split()) > len(plain.split()) / LIST:
        return False  # names of functions
    return (
        len(re.findall(r"[A-Za-z]{2,}", plain)) >= WORDS
        and " " in plain.strip()
        and not (CODE.search(text) or SNIPPET.search(plain))
    )


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
