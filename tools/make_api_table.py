"""Writes tests/bundle/api_table.json: the names that emitted code may call, and with how many arguments.

    python tools/make_api_table.py --onnxruntime CLONE --onnxruntime-commit TAG --ort CLONE --ort-commit TAG

CLONE is a git clone of microsoft/onnxruntime and of pykeio/ort, bare or not; files are read at the commit given.
Every name comes from the public headers and bindings of those commits; nothing is typed in by hand but which
classes are wanted and which files declare them. The table holds names and numbers, none of the sources' text:

    {release, commit, ort: {release, commit}, languages: {language: {type: {name: [numbers of arguments]}}},
     providers: {name: short name},
     typedefs: {name: [type] or [type of the result, types of the arguments ...]}}

``new`` is a constructor, ``static NAME`` needs no object, and no numbers at all is a value: a constant, a property
or a field. Kotlin calls the classes of Java. Swift's names are those under which it imports Objective-C's, with
their labels: ``addConfigEntry(withKey:value:)``. ``providers`` are those that the C API appends by name. ``typedefs``
are those of C that thread hooks need: of one type a pointer to it, of several a pointer to a function.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

GOAL = Path(__file__).resolve().parents[1] / "tests" / "bundle" / "api_table.json"
HEADERS = "include/onnxruntime/core/session"
SHARP = "csharp/src/Microsoft.ML.OnnxRuntime"
JAVA = "java/src/main/java/ai/onnxruntime"

Members = dict[str, list[int]]
Types = dict[str, Members]

CPP = {
    "Env": ("Env",),
    "SessionOptions": ("SessionOptions", "SessionOptionsImpl", "ConstSessionOptionsImpl"),
    "RunOptions": ("RunOptions",),
    "ThreadingOptions": ("ThreadingOptions",),
    "Session": ("Session", "SessionImpl", "ConstSessionImpl"),
    "IoBinding": ("IoBinding", "IoBindingImpl", "ConstIoBindingImpl"),
    "ArenaCfg": ("ArenaCfg",),
    "MemoryInfo": ("MemoryInfo",),
    "CUDAProviderOptions": ("CUDAProviderOptions",),
    "TensorRTProviderOptions": ("TensorRTProviderOptions",),
}
ENUMS = ("GraphOptimizationLevel", "ExecutionMode", "OrtAllocatorType", "OrtMemType", "OrtLoggingLevel")
C_HOOKS = ("OrtCustomThreadHandle", "OrtThreadWorkerFn", "OrtCustomCreateThreadFn", "OrtCustomJoinThreadFn")
SHARP_FILES = ("SessionOptions", "RunOptions", "OrtEnv", "OrtThreadingOptions", "InferenceSession", "OrtAllocator",
               "OrtLoggingLevel", "ProviderOptions")  # fmt: skip
SHARP_TYPES = ("SessionOptions", "RunOptions", "OrtEnv", "EnvironmentCreationOptions", "OrtThreadingOptions",
               "InferenceSession", "OrtArenaCfg", "OrtMemoryInfo", "OrtCUDAProviderOptions",
               "OrtTensorRTProviderOptions")  # fmt: skip
JAVA_TYPES = (
    "OrtException",
    "OrtEnvironment",
    "OrtEnvironment.ThreadingOptions",
    "OrtEpDevice",
    "OrtHardwareDevice",
    "OrtSession",
    "OrtSession.SessionOptions",
    "OrtSession.RunOptions",
)
JAVA_OPTIONS = ("OrtCUDAProviderOptions", "OrtTensorRTProviderOptions")
JAVA_ENUMS = (
    "OrtSession.SessionOptions.OptLevel",
    "OrtSession.SessionOptions.ExecutionMode",
    "OrtLoggingLevel",
    "providers/NNAPIFlags",
)
SWIFT_FILES = (
    "ort_env",
    "ort_session",
    "ort_enums",
    "ort_coreml_execution_provider",
    "ort_xnnpack_execution_provider",
)
RUST_FILES = ("src/session/mod.rs", "src/session/run_options.rs", "src/environment.rs", "src/session/builder/mod.rs",
              "src/session/builder/impl_options.rs", "src/session/builder/impl_config_keys.rs",
              "src/session/builder/impl_commit.rs", "src/error.rs")  # fmt: skip
RUST_TYPES = (
    "Session",
    "SessionBuilder",
    "EnvironmentBuilder",
    "GlobalThreadPoolOptions",
    "RunOptions",
    "Error",
)


class Clone:
    """Files of a git clone at one commit."""

    def __init__(self, place: str, commit: str) -> None:
        self.place = place
        self.commit = self.git("rev-parse", f"{commit}^{{commit}}").strip()

    def text(self, *paths: str) -> str:
        """The files one after another, without comments."""
        return "\n".join(uncommented(self.git("show", f"{self.commit}:{path}")) for path in paths)

    def grep(self, words: str, folder: str) -> str:
        """The lines of a folder's files that hold the words."""
        return self.git("grep", "-hF", words, self.commit, "--", folder)

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", "-C", self.place, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{self.place}: {done.stderr.strip()}")
        return done.stdout


def uncommented(text: str) -> str:
    """Source without comments, attributes of Rust, and the texts within quotes."""
    text = re.sub(
        r'/\*.*?\*/|//[^\n]*|("(?:[^"\\\n]|\\.)*")', lambda m: '""' if m.group(1) else " ", text, flags=re.S
    )
    return re.sub(r"^\s*#!?\[[^\n]*\]\s*$", "", text, flags=re.M)


def closing(text: str, start: int, pair: str = "{}") -> int:
    """Where the bracket at ``start`` closes."""
    depth = 0
    for place in range(start, len(text)):
        depth += {pair[0]: 1, pair[1]: -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(f"no {pair[1]} for the {pair[0]} at {start}")


def bodies(text: str, opening: str) -> Iterator[str]:
    """What stands between the braces behind each match, nested bodies emptied."""
    for found in re.finditer(opening + r"[^;{}]*\{", text):
        inner = text[found.end() : closing(text, found.end() - 1)]
        yield flat(inner)


def flat(text: str) -> str:
    """The text with whatever stands in braces taken out."""
    parts, place = [], 0
    while (start := text.find("{", place)) >= 0:
        parts.append(text[place : start + 1] + "}")
        place = closing(text, start) + 1
    return "".join(parts) + text[place:]


def arguments(text: str) -> list[str]:
    """The parts between commas that are in no bracket."""
    parts, depth = [""], 0
    for sign in text.replace("->", "  "):
        depth += (sign in "(<[{") - (sign in ")>]}")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def add(members: Members, name: str, given: list[str], *, optional: bool = True) -> None:
    """Allows calls with all these arguments, and without those at the end that have a default."""
    least = sum(not optional or "=" not in one for one in given)
    members[name] = sorted({*members.get(name, []), *range(least, len(given) + 1)})


def declared(body: str, pattern: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Matches that end behind an opening parenthesis, with the arguments that follow."""
    for found in re.finditer(pattern, body):
        start = found.end() - 1
        yield found, arguments(body[start + 1 : closing(body, start, "()")])


def methods(members: Members, body: str, own: str, pattern: str) -> None:
    """Adds the functions of a class body; the pattern finds "static " or nothing, and the name, ``own`` for new."""
    for found, given in declared(body, pattern):
        static, name = found.groups()
        add(members, "new" if name == own else f"{static or ''}{name}", given)


def constants(text: str, name: str) -> Members:
    """Names of an enumeration's values."""
    for found in re.finditer(rf"\b(?:enum|NS_ENUM\([^,]*,)\s*{name}\b[^;{{}}]*\{{", text):
        inner = flat(text[found.end() : closing(text, found.end() - 1)]).split(";")[0]
        return {match: [] for match in re.findall(r"(?:^|,)\s*(\w+)", inner)}
    sys.exit(f"no enumeration {name}")


def cpp(clone: Clone) -> Types:
    """``Ort::`` classes, and the C enumerations they take."""
    text = clone.text(f"{HEADERS}/onnxruntime_cxx_api.h")
    types: Types = {}
    for name, sources in CPP.items():
        members = types.setdefault(name, {})
        for source in sources:
            for body in bodies(text, rf"struct {source}\b(?!\w*;)"):
                for found, given in declared(
                    body,
                    r"(\bstatic\s+)?[\w>&*\]]+[\s&*]+(\w+)\s*\(|(?<=[;{}\n])\s*(?:explicit\s+)?(\w+)\s*\(",
                ):
                    own = found.group(3) or (found.group(2) if found.group(2) == source else None)
                    if own == name:
                        add(members, "new", given)
                    elif found.group(2) and own is None:
                        add(members, ("static " if found.group(1) else "") + found.group(2), given)
    headers = clone.text(f"{HEADERS}/onnxruntime_c_api.h")
    return {**types, **{name: constants(headers, name) for name in ENUMS}}


def typedefs(clone: Clone) -> dict[str, list[str]]:
    """C's types of the thread hooks, in the order of their declaration: each may name those before it."""
    text = clone.text(f"{HEADERS}/onnxruntime_c_api.h")
    functions = re.findall(r"\btypedef\s+(\w+)\s*\(\s*\*\s*(\w+)\s*\)\s*\(([^;]*)\)\s*;", text)
    handles = re.findall(r"\btypedef\s+(const\s+)?struct\s+(\w+)\s*\{[^{}]*\}\s*\*\s*(\w+)\s*;", text)
    whole = {name: [f"{const}{struct}"] for const, struct, name in handles}
    for result, name, given in functions:
        whole[name] = [result, *(re.sub(r"\s*\b\w+$", "", one) for one in arguments(given))]
    missing = set(C_HOOKS) - set(whole)
    if missing:
        sys.exit(f"no typedef of {', '.join(sorted(missing))}")
    return {name: whole[name] for name in C_HOOKS}


def providers(clone: Clone) -> dict[str, str]:
    """The short names by which the C API appends execution providers; later releases take the whole ones too."""
    names = clone.git("show", f"{clone.commit}:include/onnxruntime/core/graph/constants.h")
    whole = dict(re.findall(r'\b(k\w+ExecutionProvider) = "(\w+)"', names))
    registration = clone.git("show", f"{clone.commit}:onnxruntime/core/session/provider_registration.cc")
    found = re.findall(r'\bEpToAppend\{EpID::\w+, "(\w+)", (k\w+)\}', registration)
    if not found:
        sys.exit("no providers that are appended by name")
    return {whole[name]: short for short, name in found}


def csharp(clone: Clone) -> Types:
    """Public members of the classes of Microsoft.ML.OnnxRuntime."""
    text = clone.text(*(f"{SHARP}/{name}.shared.cs" for name in SHARP_FILES))
    types: Types = {}
    for name in SHARP_TYPES:
        members = types.setdefault(name, {})
        for body in bodies(text, rf"\b(?:class|struct) {name}\b"):
            methods(members, body, name, r"\bpublic (static )?(?:(?:[\w<>\[\].?]|, ?)+ )*?(\w+)\(")
            for static, own in re.findall(
                r"\bpublic (static )?(?:readonly )?(?:[\w<>\[\].?]|, ?)+ (\w+)\s*(?:\{\}|;|=)", body
            ):
                members[static + own] = []
    return {**types, **{name: constants(text, name) for name in ENUMS}}


def java(clone: Clone) -> Types:
    """Public members of the classes of ai.onnxruntime; nested classes with a dot."""
    types: Types = {}
    for name in (*JAVA_TYPES, *JAVA_ENUMS):
        outer, *inner = name.split(".")
        text = clone.text(f"{JAVA}/{outer}.java")
        for nested in inner:
            start = next(re.finditer(rf"\b(?:class|enum) {nested}\b[^;{{}}]*\{{", text)).end() - 1
            text = f"class {nested} " + text[start : closing(text, start) + 1]
        if name in JAVA_ENUMS:
            own = name.rpartition("/")[2]
            types[own] = constants(text.replace("class ", "enum ", 1) if inner else text, own.split(".")[-1])
            continue
        members = types.setdefault(name, {})
        own = name.split(".")[-1]
        body = next(bodies(text, rf"\bclass {own}\b"))
        methods(members, body, own, r"\bpublic (static )?(?:synchronized )?(?:[\w<>\[\],.? ]+ )?(\w+)\(")
    for name in JAVA_OPTIONS:
        text = clone.text(
            *(f"{JAVA}/providers/{file}.java" for file in (name, "StringConfigProviderOptions"))
        )
        members = types.setdefault(name, {})
        for body in bodies(text, r"\bclass \w+"):
            methods(members, body, name, r"\bpublic (static )?(?:[\w<>]+ )?(\w+)\(")
    return types


def swift(clone: Clone) -> Types:
    """Objective-C's interfaces under the names by which Swift imports them."""
    text = clone.text(*(f"objectivec/include/{name}.h" for name in SWIFT_FILES))
    types: Types = {}
    for found in re.finditer(r"@interface (\w+)(.*?)@end", text, flags=re.S):
        members = types.setdefault(found.group(1), {})
        for method in re.findall(r"^- \(([^;]*?);", found.group(2), flags=re.S | re.M):
            if "NS_UNAVAILABLE" not in method:
                name, count = swift_name(method.partition(")")[2])
                members[name] = [count]
        members.update({name: [] for name in re.findall(r"@property[^;]*?(\w+);", found.group(2))})
    for name in re.findall(r"NS_ENUM\(\w+, (\w+)\)", text):
        values = (value.removeprefix(name) for value in constants(text, name))
        types[name] = {value[0].lower() + value[1:]: [] for value in values}
    return types


def swift_name(method: str) -> tuple[str, int]:
    """``addConfigEntryWithKey:(..)key value:(..)value error:(..)error`` as Swift sees it, and its arguments."""
    pieces = re.findall(r"(\w+):\(([^()]*(?:\([^()]*\))*[^()]*)\)\s*\w+", method)
    first, kind = pieces[0] if pieces else (re.findall(r"\w+", method)[0], "")
    labels = [label for label, _ in pieces[1:] if label != "error"]
    found = re.fullmatch(r"(\w+?)(?:(With|Using)(\w+))?", first)
    base, word, label = found.groups() if found else (first, None, None)
    if label in (None, "Error"):
        # Swift throws: the error is no argument, and "WithError" is no part of the name.
        taken = "" if label or not pieces else "_"
    elif base == "init":
        taken = label[0].lower() + label[1:]
    else:
        taken = (word or "").lower() + ("" if re.sub(r"\W", "", kind).endswith(label) else label)
    given = ([taken] if taken else []) + labels
    return f"{base}({''.join(f'{label}:' for label in given)})", len(given)


def rust(clone: Clone) -> Types:
    """Public functions of the ``ort`` crate; ``ep`` holds its execution providers."""
    text = clone.text(*RUST_FILES)
    types: Types = {"ort": {}}
    for name in RUST_TYPES:
        members = types.setdefault(name, {})
        for body in bodies(text, rf"\bimpl(?:<[^{{;]*?>)? (?:Default for )?{name}\b(?:<[^{{]*?>)?"):
            functions(body, members)
    environment = flat(clone.text("src/environment.rs"))
    functions(re.sub(r"\{\}", ";", environment), types["ort"], top="init")
    types["GraphOptimizationLevel"] = constants(text, "GraphOptimizationLevel")
    providers = clone.text("src/ep/mod.rs")
    for name in re.findall(r"pub use self::\w+::(\w+);", providers):
        types[f"ep::{name}"] = {"static default": [0]}
    free = set(re.findall(r"impl_ep!\(arbitrary; (\w+)", clone.grep("impl_ep!(arbitrary;", "src/ep")))
    for found, given in declared(providers, r"\bfn (build|with_arbitrary_config)\s*\("):
        for name in types:
            if name.startswith("ep::") and (found.group(1) == "build" or name[4:] in free):
                add(types[name], found.group(1), [one for one in given if not one.endswith("self")])
    built = types.setdefault("ep::ExecutionProviderDispatch", {})
    for body in bodies(providers, r"\bimpl ExecutionProviderDispatch\b"):
        functions(body, built)
    return types


def functions(body: str, members: Members, top: str = "") -> None:
    """Adds the public functions of a body, or the one named ``top``; ``default`` is public by its trait."""
    for found, given in declared(body, r"\b(?:pub (?:unsafe )?|(?=fn default\())fn (\w+)(?:<[^(]*>)?\("):
        own = [one for one in given if not re.search(r"(^|[\s&])self(:|$)", one)]
        if not top:
            add(
                members,
                found.group(1) if len(own) < len(given) else f"static {found.group(1)}",
                own,
                optional=False,
            )
        elif found.group(1) == top:
            add(members, f"static {top}", own, optional=False)


def javascript(clone: Clone) -> Types:
    """The properties that ``InferenceSession.create`` reads."""
    text = clone.text("js/common/lib/inference-session.ts")
    wanted: Types = {}
    for name in ("SessionOptions", "RunOptions"):
        body = next(bodies(text, rf"interface {name}\b"))
        wanted[name] = {own: [] for own in re.findall(r"(\w+)\?:", body)}
    return wanted


def written(table: object) -> str:
    """JSON with one name a line, so that a change of the table is read as one."""
    text = json.dumps(table, indent=1, sort_keys=True)
    return (
        re.sub(r"\[\s*([\d,\s]*?)\s*\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text) + "\n"
    )


def main() -> None:
    """Reads both clones and writes the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--onnxruntime", required=True, help="clone of microsoft/onnxruntime")
    parser.add_argument("--onnxruntime-commit", default="HEAD")
    parser.add_argument("--ort", required=True, help="clone of pykeio/ort")
    parser.add_argument("--ort-commit", default="HEAD")
    parser.add_argument("--output", type=Path, default=GOAL)
    given = parser.parse_args()
    runtime = Clone(given.onnxruntime, given.onnxruntime_commit)
    crate = Clone(given.ort, given.ort_commit)
    version = re.search(r'^version = "([^"]+)"', crate.git("show", f"{crate.commit}:Cargo.toml"), re.M)
    table = {
        "release": runtime.git("show", f"{runtime.commit}:VERSION_NUMBER").strip(),
        "commit": runtime.commit,
        "ort": {"release": version.group(1) if version else "", "commit": crate.commit},
        "languages": {
            "cpp": cpp(runtime),
            "csharp": csharp(runtime),
            "java": java(runtime),
            "javascript": javascript(runtime),
            "rust": rust(crate),
            "swift": swift(runtime),
        },
        "providers": providers(runtime),
        "typedefs": typedefs(runtime),
    }
    given.output.write_text(written(table), encoding="utf-8")


if __name__ == "__main__":
    main()
