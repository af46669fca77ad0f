"""Emitted code under its compilers, against stubs made from the table; where one is missing the test says so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import api_stubs
import msgspec
import pytest
from emitted_code import emitted, plans

from ortune import platform
from ortune.records import Value


def run(*command: str | Path, **variables: str) -> str:
    """What a compiler says; "" when it accepts."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **variables},
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stdout + done.stderr


def needs(*tools: str) -> str:
    """The first of these tools that is here."""
    found = next((path for tool in tools if (path := shutil.which(tool))), None)
    if found is None:
        pytest.skip(f"no {' or '.join(tools)} on this machine")
    return found


def test_java_compiles(tmp_path: Path) -> None:
    compiler = needs("javac")
    api_stubs.java(tmp_path / "stub")
    for number, files in enumerate(plans().values()):
        folder = tmp_path / "src" / f"p{number}"
        folder.mkdir(parents=True)
        (folder / "Load.java").write_text(f"package p{number};\n" + files["Load.java"], encoding="utf-8")
    planted = tmp_path / "planted" / "Load.java"
    planted.parent.mkdir()
    planted.write_text(plans()["everything"]["Load.java"].replace("setCPUArenaAllocator", "setCpuArena"))
    words = (
        compiler,
        "--release",
        "11",
        "-encoding",
        "UTF-8",
        "-Xlint:-options",
        "-proc:none",
        "-d",
        tmp_path / "out",
    )
    # The stub by its source path: its classes are compiled as they are named.
    words = (*words, "-sourcepath", tmp_path / "stub", "-J-XX:TieredStopAtLevel=1")
    assert run(*words, *(tmp_path / "src").rglob("*.java")) == ""
    assert "setCpuArena" in run(*words, planted)


def test_cpp_compiles(tmp_path: Path) -> None:
    compiler = needs("g++", "clang++")
    api_stubs.cpp(tmp_path)
    lines = []
    for number, files in enumerate(plans().values()):
        (tmp_path / f"p{number}.cpp").write_text(files["load.cpp"])
        lines += [f"#define tuned_model plan{number}", f'#include "p{number}.cpp"', "#undef tuned_model"]
    (tmp_path / "all.cpp").write_text("\n".join(lines))
    words = (compiler, "-std=c++17", "-fsyntax-only", "-Wall", f"-I{tmp_path}")
    assert run(*words, tmp_path / "all.cpp") == ""
    planted = plans()["everything"]["load.cpp"].replace(
        "SetGlobalInterOpNumThreads(1)", "SetGlobalInterOpNumThreads()"
    )
    (tmp_path / "planted.cpp").write_text(planted)
    assert "SetGlobalInterOpNumThreads" in run(*words, tmp_path / "planted.cpp")


def test_rust_compiles(tmp_path: Path) -> None:
    compiler = needs("rustc")
    stub = api_stubs.rust(tmp_path)
    words = (
        compiler,
        "--edition",
        "2021",
        "--crate-type",
        "rlib",
        "--emit",
        "metadata",
        "--out-dir",
        tmp_path,
    )
    problem = run(*words, "--crate-name", "ort", stub)
    if "rustup" in problem:
        pytest.skip(f"rustc does not run here: {problem.strip()}")
    assert problem == ""
    given = ("--extern", f"ort={tmp_path / 'libort.rmeta'}", "-D", "warnings", "-A", "dead_code")
    modules = []
    for number, files in enumerate(plans().values()):
        (tmp_path / f"p{number}.rs").write_text(files["load.rs"])
        modules.append(f"mod p{number};")
    (tmp_path / "all.rs").write_text("\n".join(modules))
    assert run(*words, *given, tmp_path / "all.rs") == ""
    (tmp_path / "p0.rs").write_text(
        plans()["everything"]["load.rs"].replace("with_memory_pattern", "with_mem")
    )
    assert "with_mem" in run(*words, *given, tmp_path / "all.rs")


def on_hosts(file: str) -> list[str]:
    """The file for four machines: this one, one of another CPU, one with more features, another architecture."""
    host = platform.host()
    hosts = [
        host,
        msgspec.structs.replace(host, cpu="Another CPU 9000"),
        msgspec.structs.replace(host, features=(*host.features, "imaginary")),
        msgspec.structs.replace(host, machine="sparc"),
    ]
    settings: dict[str, Value] = {"ort_intra_op_num_threads": 4096, "allocator": "jemalloc"}
    return [emitted(settings, host=one)[file] for one in hosts]


def judged(said: str) -> None:
    """What a program says of those four, a line each, then its CPUs and the line to start it with."""
    *others, cpus, line = said.splitlines()
    assert others[0] == "" and others[1].endswith(" here, tuned on Another CPU 9000")
    assert others[2] == "no imaginary here" and others[3].endswith(" here, tuned on sparc")
    assert 1 <= int(cpus) <= len(os.sched_getaffinity(0))
    assert line.startswith(f"ORT_INTRA_OP_NUM_THREADS={cpus} LD_PRELOAD=")


def said(*command: str | Path) -> str:
    """What a program prints, started with none of its variables."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("LD_PRELOAD", "ORT_INTRA_OP_NUM_THREADS")
    }
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env=kept).stdout


def test_java_knows_its_machine(tmp_path: Path) -> None:
    compiler, machine = needs("javac"), needs("java")
    api_stubs.java(tmp_path / "stub")
    lines = []
    for number, text in enumerate(on_hosts("Load.java")):
        (tmp_path / f"p{number}").mkdir()
        (tmp_path / f"p{number}" / "Load.java").write_text(f"package p{number};\n{text}")
        lines.append(f"System.out.println(p{number}.Load.otherHardware());")
    lines += ["System.out.println(p0.Load.cpus());", "System.out.println(p0.Load.startLine());"]
    main = tmp_path / "Main.java"
    main.write_text("class Main { public static void main(String[] a) { " + " ".join(lines) + " } }")
    assert run(compiler, "-d", tmp_path / "out", "-sourcepath", f"{tmp_path}:{tmp_path / 'stub'}", main) == ""
    judged(said(machine, "-XX:TieredStopAtLevel=1", "-cp", tmp_path / "out", "Main"))


def test_cpp_knows_its_machine(tmp_path: Path) -> None:
    compiler = needs("g++", "clang++")
    api_stubs.cpp(tmp_path)
    lines, prints = [], []
    for number, text in enumerate(on_hosts("load.cpp")):
        (tmp_path / f"p{number}.cpp").write_text(text)
        lines += [f"#define tuned_model plan{number}", f'#include "p{number}.cpp"', "#undef tuned_model"]
        prints.append(f'std::cout << plan{number}::other_hardware() << "\\n";')
    prints.append('std::cout << plan0::cpus() << "\\n" << plan0::start_line() << "\\n";')
    (tmp_path / "main.cpp").write_text("\n".join([*lines, "int main() {", *prints, "}"]))
    assert (
        run(
            compiler,
            "-std=c++17",
            f"-I{tmp_path}",
            tmp_path / "main.cpp",
            "-o",
            tmp_path / "main",
            "-pthread",
        )
        == ""
    )
    judged(said(tmp_path / "main"))


def test_rust_knows_its_machine(tmp_path: Path) -> None:
    compiler = needs("rustc")
    words = (compiler, "--edition", "2021", "--out-dir", tmp_path)
    problem = run(*words, "--crate-type", "rlib", "--crate-name", "ort", api_stubs.rust(tmp_path))
    if "rustup" in problem:
        pytest.skip(f"rustc does not run here: {problem.strip()}")
    assert problem == ""
    prints = []
    for number, text in enumerate(on_hosts("load.rs")):
        (tmp_path / f"p{number}.rs").write_text(text)
        prints.append(f'println!("{{}}", p{number}::other_hardware());')
    prints.append('println!("{}\\n{}", p0::cpus(), p0::start_line());')
    modules = "".join(f"mod p{number};\n" for number in range(4))
    (tmp_path / "main.rs").write_text(
        "#![allow(dead_code)]\n" + modules + "fn main() {\n" + "\n".join(prints) + "\n}\n"
    )
    assert run(*words, "--extern", f"ort={tmp_path / 'libort.rlib'}", tmp_path / "main.rs") == ""
    judged(said(tmp_path / "main"))
