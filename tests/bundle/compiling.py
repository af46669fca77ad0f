"""Compilers and what they make of emitted code: run, told apart where they are missing, and their programs judged.

Each takes the texts of plan after plan, which it puts into a package, namespace or module of its own (``p0``, ``p1``
...), and the statements of a program that uses them. It gives what it says, "" when it accepts without a warning, and
the command that runs the program.

ORTUNE_JAVA_CLASSES is a jar of ONNX Runtime's own classes (``classes.jar`` of its Android package, or its Maven jar):
Java and Kotlin that only compiles is then compiled with those, and not with the stub.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import api_stubs
import msgspec
import pytest
from emitted_code import emitted

from ortune import platform
from ortune.records import Value

REAL = os.environ.get("ORTUNE_JAVA_CLASSES", "")


def run(*command: str | Path) -> str:
    """What a compiler says; "" when it accepts."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def needs(*tools: str) -> str:
    """The first of these tools that is here."""
    found = next((path for tool in tools if (path := shutil.which(tool))), None)
    if found is None:
        pytest.skip(f"no {' or '.join(tools)} on this machine")
    return found


class Made(NamedTuple):
    """What a compiler says, and the command that runs what it made."""

    problem: str
    command: tuple[str | Path, ...] = ()


def cpp(folder: Path, texts: Sequence[str], body: Sequence[str] = ()) -> Made:
    compiler = needs("g++", "clang++")
    api_stubs.cpp(folder)
    lines = []
    for number, text in enumerate(texts):
        (folder / f"p{number}.cpp").write_text(text)
        lines += [f"#define tuned_model p{number}", f'#include "p{number}.cpp"', "#undef tuned_model"]
    main = folder / "main.cpp"
    main.write_text("\n".join([*lines, "int main() {", *body, "}"]))
    goal = ("-o", folder / "main", "-pthread") if body else ("-fsyntax-only", "-Wall")
    return Made(run(compiler, "-std=c++17", f"-I{folder}", main, *goal), (folder / "main",))


def rust(folder: Path, texts: Sequence[str], body: Sequence[str] = ()) -> Made:
    words = (needs("rustc"), "--edition", "2021", "--out-dir", folder)
    library = (*words, "--crate-type", "rlib", *(() if body else ("--emit", "metadata")))
    problem = run(*library, "--crate-name", "ort", api_stubs.rust(folder))
    if "rustup" in problem:
        pytest.skip(f"rustc does not run here: {problem.strip()}")
    assert problem == ""
    for number, text in enumerate(texts):
        (folder / f"p{number}.rs").write_text(text)
    main = folder / "main.rs"
    modules = [f"mod p{number};" for number in range(len(texts))]
    main.write_text("\n".join([*modules, *(["fn main() {", *body, "}"] if body else [])]))
    given = (
        "--extern",
        f"ort={folder / 'libort'}.{'rlib' if body else 'rmeta'}",
        "-D",
        "warnings",
        "-A",
        "dead_code",
    )
    return Made(run(*(words if body else library), *given, main), (folder / "main",))


def java(folder: Path, texts: Sequence[str], body: Sequence[str] = ()) -> Made:
    compiler, machine = needs("javac"), needs("java")
    api_stubs.java(folder / "stub")
    files = [folder / "Main.java"]
    main = "public static void main(String[] a) throws Exception"
    files[0].write_text("\n".join([f"class Main {{ {main} {{", *body, "} }"]))
    for number, text in enumerate(texts):
        files.append(folder / f"p{number}" / "Load.java")
        files[-1].parent.mkdir(exist_ok=True)
        files[-1].write_text(f"package p{number};\n{text}", encoding="utf-8")
    words = (
        "--release",
        "11",
        "-encoding",
        "UTF-8",
        "-Xlint:-options",
        "-proc:none",
        "-J-XX:TieredStopAtLevel=1",
    )
    # The stub by its source path: its classes are compiled as they are named.
    api = ("-cp", REAL) if REAL and not body else ("-sourcepath", folder / "stub")
    problem = run(compiler, *words, "-d", folder / "out", *api, *files)
    return Made(problem, (machine, "-XX:TieredStopAtLevel=1", "-cp", folder / "out", "Main"))


def kotlin(folder: Path, texts: Sequence[str], body: Sequence[str] = ()) -> Made:
    compiler, builder, machine = needs("kotlinc"), needs("javac"), needs("java")
    named = subprocess.run([compiler, "-version"], capture_output=True, text=True, timeout=60, check=True)
    version = re.search(r"kotlinc-jvm (\d+)\.(\d+)", named.stdout + named.stderr)
    if version and (int(version[1]), int(version[2])) < (1, 8):
        pytest.skip("kotlinc before 1.8 closes no AutoCloseable without a library beside its own")
    stub, classes = folder / "stub", Path(REAL) if REAL and not body else folder / "classes"
    if not stub.is_dir():
        api_stubs.java(stub)
        assert run(builder, "-d", folder / "classes", *stub.rglob("*.java")) == ""
    files = [folder / "Main.kt"]
    files[0].write_text("\n".join(["fun main() {", *body, "}"]))
    for number, text in enumerate(texts):
        files.append(folder / f"p{number}" / "Load.kt")
        files[-1].parent.mkdir(exist_ok=True)
        files[-1].write_text(f"package p{number}\n{text}", encoding="utf-8")
    words = (compiler, "-Werror", "-no-reflect", "-include-runtime", "-cp", classes)
    problem = run(*words, "-d", folder / "out.jar", *files)
    return Made(
        problem, (machine, "-XX:TieredStopAtLevel=1", "-cp", f"{folder / 'out.jar'}:{classes}", "MainKt")
    )


def csharp(folder: Path, texts: Sequence[str], body: Sequence[str] = ()) -> Made:
    dotnet = needs("dotnet")
    version, place = said(dotnet, "--list-sdks").splitlines()[-1].split(" ", 1)
    root = Path(place.strip("[]"))
    packs = root.parent / "packs" / "Microsoft.NETCore.App.Ref"
    references = sorted(max(packs.glob("*/ref/*"), key=lambda pack: pack.stat().st_mtime).glob("*.dll"))
    files = [api_stubs.csharp(folder), folder / "Main.cs"]
    files[1].write_text("\n".join(["class Program { static void Main() {", *body, "} }"]))
    for number, text in enumerate(texts):
        files.append(folder / f"p{number}.cs")
        files[-1].write_text(f"namespace p{number} {{\n{text}\n}}\n", encoding="utf-8")
    compiler = root / version / "Roslyn" / "bincore" / "csc.dll"
    words = ["-nologo", "-nostdlib", "-warnaserror", "-target:exe", *(f"-r:{one}" for one in references)]
    problem = run(dotnet, compiler, *words, "-langversion:8", f"-out:{folder / 'out.dll'}", *files)
    lines = said(dotnet, "--list-runtimes").splitlines()
    runtime = next(line.split()[1] for line in reversed(lines) if line.startswith("Microsoft.NETCore.App "))
    options = {"runtimeOptions": {"framework": {"name": "Microsoft.NETCore.App", "version": runtime}}}
    (folder / "out.runtimeconfig.json").write_bytes(msgspec.json.encode(options))
    return Made(problem, (dotnet, folder / "out.dll"))


class Tool(NamedTuple):
    """A compiler, how its programs print, and how they call the emitted code: package, name."""

    compiled: Callable[..., Made]
    prints: str
    call: str
    names: tuple[str, str, str]

    def questions(self) -> list[str]:
        """Statements that print what ``judged`` reads, of the packages of ``on_hosts``."""
        other, cpus, line = self.names
        calls = [*((number, other) for number in range(5)), (0, cpus), (0, line), (4, line)]
        return [self.prints.format(self.call.format(*call)) for call in calls]


IN_PASCAL = ("OtherHardware", "Cpus", "StartLine")
IN_CAMEL = ("otherHardware", "cpus", "startLine")
IN_SNAKE = ("other_hardware", "cpus", "start_line")
TOOLS = {
    "load.cpp": Tool(cpp, 'std::cout << {} << "\\n";', "p{}::{}()", IN_SNAKE),
    "load.rs": Tool(rust, 'println!("{{}}", {});', "p{}::{}()", IN_SNAKE),
    "Load.java": Tool(java, "System.out.println({});", "p{}.Load.{}()", IN_CAMEL),
    "Load.kt": Tool(kotlin, "println({})", "p{}.Load.{}()", IN_CAMEL),
    "Load.cs": Tool(csharp, "System.Console.WriteLine({});", "p{}.Load.{}()", IN_PASCAL),
}


def on_hosts(file: str) -> list[str]:
    """The file for five machines: this one, one of another CPU, one with more features, another architecture, and one
    with more CPUs."""
    host = platform.host()
    hosts = [
        host,
        msgspec.structs.replace(host, cpu="Another CPU 9000"),
        msgspec.structs.replace(host, features=(*host.features, "imaginary")),
        msgspec.structs.replace(host, machine="sparc"),
        msgspec.structs.replace(host, effective_cpus=4096),
    ]
    settings: dict[str, Value] = {"ort_intra_op_num_threads": 4096, "allocator": "jemalloc"}
    return [emitted(settings, host=one)[file] for one in hosts]


def judged(said: str) -> None:
    """What a program says of those five, a line each, then its CPUs and the lines to start the first and last with."""
    *others, cpus, line, smaller = said.splitlines()
    assert others[0] == "" and others[1].endswith(" here, tuned on Another CPU 9000")
    assert others[2] == "no imaginary here" and others[3].endswith(" here, tuned on sparc")
    assert others[4] == ""
    assert 1 <= int(cpus) <= len(os.sched_getaffinity(0))
    # More threads than CPUs were measured here; on a machine with fewer CPUs they are too many.
    assert line.startswith("ORT_INTRA_OP_NUM_THREADS=4096 LD_PRELOAD=")
    assert smaller.startswith(f"ORT_INTRA_OP_NUM_THREADS={cpus} LD_PRELOAD=")


def said(*command: str | Path) -> str:
    """What a program prints, started with none of its variables."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("LD_PRELOAD", "ORT_INTRA_OP_NUM_THREADS")
    }
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env=kept).stdout
