"""Reads emitted code for calls of a binding's types, and holds each against the table of its release."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from make_api_table import arguments, closing

TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("api_table.json").read_text())
LANGUAGES = {
    "load.cpp": "cpp",
    "Load.cs": "csharp",
    "Load.java": "java",
    "Load.kt": "kotlin",
    "load.swift": "swift",
    "load.rs": "rust",
}
TYPES = {**TABLE["languages"], "kotlin": TABLE["languages"]["java"]}
for renamed in ("getName", "getVendor", "getMetadata", "getOptions"):
    # Java's releases after the table's call it getEpName and so on; emitted code is compiled with any of them.
    del TYPES["java"]["OrtEpDevice"][renamed]

TYPEDEFS: dict[str, list[str]] = TABLE["typedefs"]
IN_NOTES = {
    # What the words of a note call the binding's objects.
    "cpp": {"options": "SessionOptions", "session": "Session", "run": "RunOptions"},
    "csharp": {"options": "SessionOptions", "session": "InferenceSession", "run": "RunOptions"},
    "java": {"options": "OrtSession.SessionOptions", "session": "OrtSession"},
    "kotlin": {"options": "OrtSession.SessionOptions", "session": "OrtSession"},
    "swift": {"options": "ORTSessionOptions", "session": "ORTSession"},
    "rust": {"options": "SessionBuilder", "session": "Session"},
}

RUST_GIVES = {
    "Session::builder": "SessionBuilder",
    "ort::init": "EnvironmentBuilder",
    "RunOptions::new": "RunOptions",
    "GlobalThreadPoolOptions::default": "GlobalThreadPoolOptions",
}
FOREIGN = {
    # Names that the table lacks: what the languages themselves have, and functions of no type, each there since 1.15.
    "csharp": {
        "SortedDictionary",
        "Dictionary",
        "Lazy",
        "Load",
        "OrtIoBinding",
        "OrtValue",
        "InvalidOperationException",
    },
    "java": {
        "ArrayList",
        "StringBuilder",
        "TreeMap",
        "NodeInfo",
        "OnnxJavaType",
        "OnnxTensor",
        "OnnxTensorLike",
        "OnnxValue",
        "Result",
        "TensorInfo",
    },
    "cpp": {"ORT_API_VERSION", "OrtGetApiBase", "AllocatorWithDefaultOptions", "Value"},
    "swift": {"ORTVersion", "ORTValue"},
}
CONSTANT = r"\bORT_[A-Z_]+\b|(?<!::)\bOrt[A-Z]\w+\b"


class Call(NamedTuple):
    """A use of a type's member; ``given`` is None where it is no call."""

    type: str
    member: str
    given: int | None


def wrong_calls(file: str, text: str) -> list[str]:
    """What of an emitted file is not in the table, in words."""
    return list(_wrong_calls(LANGUAGES[file], bare(text), notes(text)))


@cache  # files of many plans differ in nothing but what stands in quotes
def _wrong_calls(language: str, code: str, noted: str) -> tuple[str, ...]:
    types = TYPES[language]
    wrong = [f"{language}: no type {name}" for name in unknown_types(language, code)]
    # Notes are prose with names in it: "call it with new ones" makes nothing.
    unknown = {name for name in unknown_types(language, noted) if name[0].isupper()}
    wrong += [f"{language}: no type {name}, which a note names" for name in unknown]
    for call in [*calls(language, code), *calls(language, noted, IN_NOTES[language])]:
        allowed = types[call.type].get(call.member)
        if call.member in FOREIGN.get(language, set()):
            continue
        if allowed is None:
            wrong.append(f"{language}: {call.type} has no {call.member}")
        elif (call.given is None and allowed) or (call.given is not None and call.given not in allowed):
            wrong.append(f"{language}: {call.type}.{call.member} with {call.given}, which takes {allowed}")
    return tuple(wrong)


def notes(text: str) -> str:
    """What comments say to do for a setting that the language cannot make: the second line of each pair."""
    return "\n".join(
        re.findall(r"(?m)^\s*//     (.*)$", text.partition("annot apply, each with the alternative")[2])
    )


def calls(language: str, text: str, named: dict[str, str] | None = None) -> list[Call]:
    """Every use of a member of the binding's types; ``named`` are variables whose types no declaration tells."""
    code = bare(text)
    known = TYPES[language]
    found = [*constructed(language, code, known), *by_type(language, code, known)]
    for name, kind in sorted({*variables(language, code, known), *(named or {}).items()}):
        for match in re.finditer(rf"(?<![\w.]){name}(?:\.|->)(\w+)", code):
            found.append(used(language, code, kind, match.group(1), match.end()))
    return found


def unknown_types(language: str, text: str) -> set[str]:
    """Types that are named as the binding's own and are not in the table."""
    code = bare(text)
    known = TYPES[language]
    patterns = {
        "cpp": rf"\bOrt::(\w+)|({CONSTANT})",
        "csharp": r"\bnew (\w+)\b(?!\[)|\b(Ort\w+)",
        "java": r"\bnew ([\w.]+)\b(?!\[)|\b(Ort[A-Z]\w+)|import ai\.onnxruntime\.(?:\w+\.)*(\w+);",
        "kotlin": r"\b(Ort[A-Z]\w+)",
        "swift": r"\b(ORT[A-Z]\w+)",
        "rust": r"\bort::(ep::\w+|\w+)",
    }
    names = {next(filter(None, groups)) for groups in re.findall(patterns[language] + "|(?!)()", code)}
    fine = FOREIGN.get(language, set()) | set(known) | {name.split(".")[0] for name in known}
    if language == "cpp":
        fine |= {member for members in known.values() for member in members}
        fine |= set(TYPEDEFS) | {word for kinds in TYPEDEFS.values() for k in kinds for word in k.split()}
    if language == "rust":
        fine |= {
            "Result",
            "init",
            "ep",
            "session",
            "environment",
            "ep::ArbitrarilyConfigurableExecutionProvider",
        }
    return names - fine


def variables(language: str, code: str, known: dict[str, Any]) -> set[tuple[str, str]]:
    """Names in the code that hold one of the types."""
    own = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    if language == "rust":
        found = {
            (m[1], RUST_GIVES[m[2]])
            for m in re.finditer(r"let (?:mut )?(\w+) = ([\w:]+)\(", code)
            if m[2] in RUST_GIVES
        }
        return (
            found
            | {
                (m[1], m[2])
                for m in re.finditer(r"let (\w+) = ort::(ep::\w+)::default\(", code)
                if m[2] in known
            }
            | {
                (m[1], "ep::ExecutionProviderDispatch")
                for m in re.finditer(r"let (\w+) = \w+\.build\(", code)
            }
        )
    before = "Ort::" if language == "cpp" else r"(?<![\w.])"
    found = {(m[2], m[1]) for m in re.finditer(rf"{before}({own})[&*]? (\w+)\b", code)}
    found |= {
        (m[1], m[2]) for m in re.finditer(rf"\b(\w+)(?:: [\w.]+)? = (?:try |new )?({own})\b(?=[({{ ])", code)
    }
    found |= {(m[1], m[2]) for m in re.finditer(rf"\b(\w+): ({own})\b", code)}
    return found | {(m[1], m[2]) for m in re.finditer(rf"\bvar (\w+) = ({own})\.", code)}


def constructed(language: str, code: str, known: dict[str, Any]) -> Iterator[Call]:
    """Constructors."""
    own = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    if language == "cpp":
        for match in re.finditer(rf"(?<!\w)Ort::({own})(?: (\w+))?(?=[(;])", code):
            if code[match.end()] == ";":
                yield Call(match[1], "new", 0)
            elif not re.match(r"\s*(?:const )?\{", code[closing(code, match.end(), "()") + 1 :]):
                yield Call(match[1], "new", len(given_at(code, match.end())))
    elif language in ("csharp", "java"):
        for match in re.finditer(rf"\bnew ({own})(?=\()", code):
            yield Call(match[1], "new", len(given_at(code, match.end())))
        for match in re.finditer(rf"\bnew ({own}) \{{([^}}]*)\}}", code):
            yield from (Call(match[1], field, None) for field in re.findall(r"(\w+) =", match[2]))
    elif language == "kotlin":
        for match in re.finditer(rf"(?<![\w.])({own})(?=\()", code):
            yield Call(match[1], "new", len(given_at(code, match.end())))
    elif language == "swift":
        for match in re.finditer(rf"\b({own})(?=\()", code):
            yield labelled(code, match[1], "init", match.end())


def by_type(language: str, code: str, known: dict[str, Any]) -> Iterator[Call]:
    """Static functions, and the values of enumerations."""
    own = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    sign = {"cpp": "::", "rust": "::"}.get(language, r"\.")
    before = {"cpp": "Ort::", "rust": r"(?<!\w)"}.get(language, r"(?<![\w.])")
    for match in re.finditer(rf"{before}({own}){sign}(\w+)", code):
        if f"{match[1]}.{match[2]}" in known or re.search(
            r"(^|\s)(import|use|using) [^\n]*$", code[: match.start()]
        ):
            continue
        if match[1] == "ort" and code[match.end() : match.end() + 1] != "(":
            continue  # a module's or a type's path
        call = used(language, code, match[1], match[2], match.end())
        static = f"static {match[2]}"
        yield call._replace(member=static) if static in known[match[1]] or call.given is not None else call


def used(language: str, code: str, kind: str, member: str, end: int) -> Call:
    """A member that is called, read or set."""
    if code[end : end + 1] != "(":
        return Call(kind, member, None)
    if language == "swift":
        return labelled(code, kind, member, end)
    return Call(kind, member, len(given_at(code, end)))


def labelled(code: str, kind: str, member: str, end: int) -> Call:
    """A call of Swift, whose labels are part of the name."""
    given = given_at(code, end)
    labels = [found[1] if (found := re.match(r"\s*(\w+):", one)) else "_" for one in given]
    return Call(kind, f"{member}({''.join(label + ':' for label in labels)})", len(given))


def bare(text: str) -> str:
    """The code without comments and without what stands in quotes."""

    def put(found: re.Match[str]) -> str:
        return '""' if found.group().startswith('"') else " "

    return re.sub(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', put, text, flags=re.S)


def given_at(code: str, start: int) -> list[str]:
    """The arguments of the call whose parenthesis is at ``start``."""
    return arguments(code[start + 1 : closing(code, start, "()")])
