"""Stubs of the bindings, made from the table alone: a name or a number of arguments that it lacks does not compile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from api_calls import TYPEDEFS, TYPES

PACKAGES = {
    "OrtCUDAProviderOptions": ".providers",
    "OrtTensorRTProviderOptions": ".providers",
    "NNAPIFlags": ".providers",
}


def overloads(members: dict[str, list[int]]) -> Iterator[tuple[str, str, int]]:
    """Every function of a type once for each number of arguments: "static " or "", its name, the number."""
    for member, counts in members.items():
        own = member.removeprefix("static ")
        yield from (("static " if own != member else "", own, count) for count in counts)


JAVA_BODIES = {
    # What ONNX Runtime does here: it refuses a second pool, and closed options have unloaded their libraries.
    ("OrtEnvironment", "getEnvironment", 3): (
        'if (made) throw new IllegalStateException("one already exists"); made = true; return new OrtEnvironment();'
    ),
    ("OrtEnvironment", "getEnvironment", 0): "return new OrtEnvironment();",
    ("OrtEnvironment", "createSession", 2): "return new OrtSession();",
    ("OrtSession.SessionOptions", "close", 0): "closed++;",
}
JAVA_RESULTS = {
    "getEnvironment": "OrtEnvironment",
    "createSession": "OrtSession",
    "getVersion": "String",
    "getAvailableProviders": "java.util.EnumSet",
    "getEpDevices": "java.util.List<OrtEpDevice>",
    "getDevice": "OrtHardwareDevice",
    "getType": "Object",
    "run": "Result",
    "getInputInfo": "java.util.Map<String, NodeInfo>",
    "getOutputInfo": "java.util.Map<String, NodeInfo>",
}
"""Of methods; all others are void."""
JAVA_FIELDS = {
    "OrtEnvironment": "private static boolean made;",
    "OrtSession.SessionOptions": "public static int closed;",
    "OrtSession": (
        "public static abstract class Result implements AutoCloseable, "
        "Iterable<java.util.Map.Entry<String, OnnxValue>> { public void close() {} }"
    ),
}
JAVA_BESIDE = {
    "ValueInfo": "interface ValueInfo {}",
    "TensorInfo": (
        "class TensorInfo implements ValueInfo { public final OnnxJavaType type = null; "
        "public long[] getShape() { return null; } }"
    ),
    "NodeInfo": "class NodeInfo { public ValueInfo getInfo() { return null; } }",
    "OnnxJavaType": "enum OnnxJavaType { STRING; public final int size = 0; }",
    "OnnxValue": "interface OnnxValue extends AutoCloseable { ValueInfo getInfo(); void close(); }",
    "OnnxTensorLike": "abstract class OnnxTensorLike implements OnnxValue {}",
    "OnnxTensor": (
        "abstract class OnnxTensor extends OnnxTensorLike { public static OnnxTensor createTensor(OrtEnvironment a0, "
        "java.nio.ByteBuffer a1, long[] a2, OnnxJavaType a3) throws OrtException { return null; } }"
    ),
}
"""Types that the table lacks, by their source at the same release."""


def java(folder: Path) -> None:
    """``ai.onnxruntime``, every argument an Object."""
    for name in TYPES["java"]:
        if "." in name:
            continue
        package = "ai.onnxruntime" + PACKAGES.get(name, "")
        goal = folder / package.replace(".", "/") / f"{name}.java"
        goal.parent.mkdir(parents=True, exist_ok=True)
        goal.write_text(
            f"package {package};\nimport ai.onnxruntime.OrtException;\npublic {_java(name, name)}"
        )
    for name, text in JAVA_BESIDE.items():
        goal = folder / "ai" / "onnxruntime" / f"{name}.java"
        goal.write_text(f"package ai.onnxruntime;\npublic {text}\n")


def _java(full: str, name: str) -> str:
    members = TYPES["java"][full]
    inner = [
        "public static " + _java(other, other.rpartition(".")[2])
        for other in TYPES["java"]
        if other.rpartition(".")[0] == full
    ]
    if members and not any(members.values()):
        return f"enum {name} {{ {', '.join(members)} }}\n"
    lines = [JAVA_FIELDS[full]] if full in JAVA_FIELDS else []
    for static, own, count in overloads(members):
        if own in ("toString", "close"):
            continue
        given = ", ".join(f"Object a{i}" for i in range(count))
        result = JAVA_RESULTS.get(own, "void")
        head = f"public {name}" if own == "new" else f"public {static}{result} {own}"
        body = JAVA_BODIES.get((full, own, count), "" if own == "new" or result == "void" else "return null;")
        lines.append(f"{head}({given}) throws OrtException {{ {body} }}")
    kind = " implements AutoCloseable" if "close" in members else ""
    closing = JAVA_BODIES.get((full, "close", 0), "")
    lines += [f"public void close() throws OrtException {{ {closing} }}"] if kind else []
    kind = " extends Exception" if name == "OrtException" else kind
    lines = [line.replace(" throws OrtException", "") for line in lines] if name == "OrtException" else lines
    return f'@SuppressWarnings("unchecked") class {name}{kind} {{\n' + "\n".join(lines + inner) + "\n}\n"


CSHARP_BESIDE = """
public class OrtHardwareDevice { public object Type { get; set; } }
public class OrtEpDevice { public string EpName { get; set; } public OrtHardwareDevice HardwareDevice { get; set; } }
public class OrtValue { }
public interface IDisposableReadOnlyCollection<T> : System.IDisposable { }
public class OrtIoBinding : System.IDisposable {
public void ClearBoundInputs() { }
public void BindInput(string a0, OrtValue a1) { }
public void BindOutputToDevice(string a0, OrtMemoryInfo a1) { }
public IDisposableReadOnlyCollection<OrtValue> GetOutputValues() { return null; }
public void Dispose() { }
}
"""
"""Types that the table lacks, by their source at the same release."""
CSHARP_RESULTS = {
    "CreateIoBinding": "OrtIoBinding",
    "GetEpDevices": "System.Collections.Generic.List<OrtEpDevice>",
    "CreateInstanceWithOptions": "OrtEnv",
    "Instance": "OrtEnv",
    "GetVersionString": "string",
}
"""Of methods; all others are void."""
CSHARP_BODIES = {"GetVersionString": 'return "1.24.2";'}
CSHARP_STRUCTS = {"EnvironmentCreationOptions"}
"""Handed over by reference."""


def csharp(folder: Path) -> Path:
    """The namespace ``Microsoft.ML.OnnxRuntime``: every argument an object, every property as its user takes it."""
    kinds = [_csharp(name, members) for name, members in TYPES["csharp"].items()]
    goal = folder / "Stub.cs"
    goal.write_text("namespace Microsoft.ML.OnnxRuntime {\n" + "\n".join([*kinds, CSHARP_BESIDE]) + "\n}\n")
    return goal


def _csharp(name: str, members: dict[str, list[int]]) -> str:
    if name not in CSHARP_STRUCTS and not any(members.values()):
        return f"public enum {name} {{ {', '.join(members)} }}"
    values = [re.sub(r"(\w+)$", r"dynamic \1", member) for member, counts in members.items() if not counts]
    lines = [f"public {value} {{ get; set; }}" for value in values]
    for static, own, count in overloads(members):
        if own in ("Dispose", "Equals", "GetHashCode"):
            continue
        kind = "ref EnvironmentCreationOptions" if own == "CreateInstanceWithOptions" else "object"
        given = ", ".join(f"{kind} a{i}" for i in range(count))
        result = CSHARP_RESULTS.get(own, "void")
        body = CSHARP_BODIES.get(own, "" if result == "void" else f"return new {result}();")
        head = f"public {name}" if own == "new" else f"public {static}{result} {own}"
        lines.append(f"{head}({given}) {{ {body} }}")
    if name in CSHARP_STRUCTS:
        return f"public struct {name} {{\n" + "\n".join(lines) + "\n}"
    lines.append("public void Dispose() { }")
    return f"public class {name} : System.IDisposable {{\n" + "\n".join(lines) + "\n}"


CPP_RESULTS = {
    "GetOutputCount": "size_t",
    "GetOutputNameAllocated": "Text",
    "GetEpDevices": "std::vector<EpDevice>",
}
"""Of methods; all others give what converts to anything."""
CPP_BESIDE = ["struct Value { Value(Value&&); };", "struct AllocatorWithDefaultOptions {};"]
"""Types of which emitted code names nothing but themselves."""
CPP_HEAD = """#pragma once
#include <string>
#include <unordered_map>
#include <vector>
struct Any { template <class T> operator T() const; };
struct Text { const char* get() const; };
struct HardwareDevice { int Type() const; };
struct EpDevice { const char* EpName() const; HardwareDevice Device() const; };
struct OrtApiBase { const char* (*GetVersionString)(); };
inline const OrtApiBase* OrtGetApiBase() {
  static const OrtApiBase base = {[]() -> const char* { return "1.24.2"; }};
  return &base;
}
"""


def typedefs() -> list[str]:
    """Those of the table: a type alone is what a handle points to, several are a function's."""
    lines = []
    for name, (kind, *given) in sorted(TYPEDEFS.items(), key=lambda item: len(item[1])):
        if given:
            lines.append(f"typedef {kind} (*{name})({', '.join(given)});")
        else:
            const, _, struct = kind.rpartition(" ")
            lines.append(f"typedef {const} struct {struct} {{ char c; }}* {name};")
    return lines


def cpp(folder: Path) -> None:
    """``onnxruntime_cxx_api.h``: templates of as many arguments as the table has, and the enumerations."""
    plain, classes = typedefs(), list(CPP_BESIDE)
    for name, members in TYPES["cpp"].items():
        if not any(members.values()):
            plain.append(f"enum {name} {{ {', '.join(members)} }};")
            continue
        lines = []
        for static, own, count in overloads(members):
            kinds = ", ".join(f"class A{i}" for i in range(count))
            given = ", ".join(f"const A{i}&" for i in range(count))
            head = f"template <{kinds}> " if count else ""
            # An enumeration's value that copies would go the constructor's way; a copy is the compiler's own.
            if own != "new":
                lines.append(f"  {head}{static}{CPP_RESULTS.get(own, 'Any')} {own}({given});")
            elif (name, count) != ("Env", 1):
                lines.append(f"  {head}explicit {name}({given});")
        lines += [f"  {name}({name}&&);", f"  {name}(const {name}&) = delete;", "  int operator*() const;"]
        classes.append(f"struct {name} {{\n" + "\n".join(lines) + "\n};")
    text = CPP_HEAD + "\n".join(plain) + "\nnamespace Ort {\n" + "\n".join(classes) + "\n}\n"
    (folder / "onnxruntime_cxx_api.h").write_text(text)


RUST_HEAD = """#![allow(unused, non_camel_case_types)]
pub type Result<T> = std::result::Result<T, Error>;
"""
RUST_PLACES = {
    "Session": "session",
    "RunOptions": "session",
    "SessionBuilder": "session::builder",
    "GraphOptimizationLevel": "session::builder",
    "GlobalThreadPoolOptions": "environment",
    "EnvironmentBuilder": "environment",
}
RUST_RESULTS = {
    "build": "ExecutionProviderDispatch",
    "static builder": "crate::Result<crate::session::builder::SessionBuilder>",
    "static new": "crate::Result<Self>",
    "static default": "Self",
    "Error static new": "Self",
    "error_on_failure": "Self",
    "set": "crate::Result<()>",
    "commit": "bool",
    "commit_from_file": "crate::Result<crate::session::Session>",
}


def rust(folder: Path) -> Path:
    """The crate ``ort``: what a builder's ``with_`` gives is itself, in a Result where the crate does so."""
    places: dict[str, list[str]] = {}
    for name, members in TYPES["rust"].items():
        place, own = ("ep", name[4:]) if name.startswith("ep::") else (RUST_PLACES.get(name, ""), name)
        if name == "ort":
            continue
        if not any(members.values()):
            places.setdefault(place, []).append(f"pub enum {own} {{ {', '.join(members)} }}")
            continue
        free = [] if place == "ep" or own in ("EnvironmentBuilder", "Error") else ["Result"]
        lines = [
            _rust(own, member, counts[0], bool(free))
            for member, counts in members.items()
            if member != "with_arbitrary_config"
        ]
        derived = "#[derive(Debug)] " if own == "Error" else ""
        places.setdefault(place, []).append(f"{derived}pub struct {own}; impl {own} {{ {' '.join(lines)} }}")
        if "with_arbitrary_config" in members:
            places[place].append(
                f"impl ArbitrarilyConfigurableExecutionProvider for {own} "
                "{ fn with_arbitrary_config<A, B>(self, a: A, b: B) -> Self { self } }"
            )
    free = "fn with_arbitrary_config<A, B>(self, a: A, b: B) -> Self;"
    trait = f"pub trait ArbitrarilyConfigurableExecutionProvider {{ {free} }}"
    text = RUST_HEAD
    if TYPES["rust"]["ort"].get("static init") == [0]:
        text += "pub fn init() -> environment::EnvironmentBuilder { environment::EnvironmentBuilder }\n"
    text += "\n".join(places.pop("", [])) + "\n"
    builder = places.pop("session::builder")
    places["session"].append(f"pub mod builder {{ {' '.join(builder)} }}")
    places["ep"].append(trait)
    text += "\n".join(f"pub mod {place} {{ {' '.join(items)} }}" for place, items in places.items())
    goal = folder / "ort.rs"
    goal.write_text(text)
    return goal


def _rust(kind: str, member: str, count: int, fallible: bool) -> str:
    own = member.removeprefix("static ")
    kinds = "<" + ", ".join(f"A{i}" for i in range(count)) + ">" if count else ""
    receiver = (
        []
        if member.startswith("static ")
        else ["self" if own.startswith(("with_", "build", "error_on_", "fail_")) else "&mut self"]
    )
    receiver = ["self"] if own == "commit" else receiver
    given = ", ".join([*receiver, *(f"a{i}: A{i}" for i in range(count))])
    result = RUST_RESULTS.get(f"{kind} {member}") or RUST_RESULTS.get(member, "")
    if not result:
        result = ("crate::Result<Self>" if fallible else "Self") if own.startswith("with_") else "()"
    return f"pub fn r#{own}{kinds}({given}) -> {result} {{ {_rust_body(own, result)} }}"


def _rust_body(own: str, result: str) -> str:
    """Everything succeeds but ``commit``: the program has an environment already."""
    fresh = own in ("default", "new")
    if result == "bool":
        return "false"
    if result == "Self":
        return "Self" if fresh else "self"
    if result == "crate::Result<Self>":
        return "Ok(Self)" if fresh else "Ok(self)"
    return {"builder": "Ok(builder::SessionBuilder)", "commit_from_file": "Ok(crate::session::Session)"}.get(
        own, "todo!()"
    )
