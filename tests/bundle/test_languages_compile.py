"""Emitted code under its compilers, against stubs made from the table; where one is missing the test says so."""

from __future__ import annotations

from pathlib import Path

import api_stubs
import pytest
from compiling import judged, needs, on_hosts, run, said
from emitted_code import emitted, plans

from ortune import platform
from ortune.records import Value


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


def test_java_knows_its_machine(tmp_path: Path) -> None:
    compiler, machine = needs("javac"), needs("java")
    api_stubs.java(tmp_path / "stub")
    lines = []
    for number, text in enumerate(on_hosts("Load.java")):
        (tmp_path / f"p{number}").mkdir()
        (tmp_path / f"p{number}" / "Load.java").write_text(f"package p{number};\n{text}")
        lines.append(f"System.out.println(p{number}.Load.otherHardware());")
    lines += [
        f"System.out.println({call}());"
        for call in ("p0.Load.cpus", "p0.Load.startLine", "p4.Load.startLine")
    ]
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
    prints += [
        f'std::cout << {c}() << "\\n";' for c in ("plan0::cpus", "plan0::start_line", "plan4::start_line")
    ]
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


def test_cpp_knows_its_runtime_and_its_allocator(tmp_path: Path) -> None:
    compiler = needs("g++", "clang++")
    api_stubs.cpp(tmp_path)
    plain = emitted({"allocator": "mimalloc"})
    level: dict[str, Value] = {"graph_optimization_level": "disable"}
    lines, prints = [], []
    for number, files in enumerate((plain, emitted(level), emitted(level, bound=True))):
        (tmp_path / f"p{number}.cpp").write_text(files["load.cpp"])
        lines += [f"#define tuned_model plan{number}", f'#include "p{number}.cpp"', "#undef tuned_model"]
        own = f"plan{number}"
        prints.append(f'std::cout << {own}::without_allocator() << {own}::other_build() << "\\n";')
    (tmp_path / "main.cpp").write_text("\n".join([*lines, "int main() {", *prints, "}"]))
    words = (compiler, "-std=c++17", f"-I{tmp_path}", tmp_path / "main.cpp", "-o", tmp_path / "main")
    assert run(*words, "-pthread") == ""
    # The stub's version is not the bundle's, which matters to a bound model alone.
    assert said(tmp_path / "main").splitlines() == ["1", "0", "0onnxruntime 1.24.2 here, tuned with 1.31.1"]
    library = platform.allocator_library("mimalloc")
    if library is not None:
        assert said("env", f"LD_PRELOAD={library}", tmp_path / "main").splitlines()[0] == "0"


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
    prints += [f'println!("{{}}", {call}());' for call in ("p0::cpus", "p0::start_line", "p4::start_line")]
    modules = "".join(f"mod p{number};\n" for number in range(5))
    (tmp_path / "main.rs").write_text(
        "#![allow(dead_code)]\n" + modules + "fn main() {\n" + "\n".join(prints) + "\n}\n"
    )
    assert run(*words, "--extern", f"ort={tmp_path / 'libort.rlib'}", tmp_path / "main.rs") == ""
    judged(said(tmp_path / "main"))


def test_java_makes_its_pool_once_and_keeps_operators_loaded(tmp_path: Path) -> None:
    compiler, machine = needs("javac"), needs("java")
    api_stubs.java(tmp_path / "stub")
    files = {
        "pool": emitted({"global_thread_pool": 2}),
        "ops": emitted({}, custom_ops=("custom_ops/0-a.so",)),
        "plain": emitted({}),
    }
    lines = ['java.nio.file.Path here = java.nio.file.Path.of(".");']
    for name, texts in files.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "Load.java").write_text(f"package {name};\n{texts['Load.java']}")
        lines += [f"{name}.Load.load(here);"] * 2
        lines.append("System.out.println(ai.onnxruntime.OrtSession.SessionOptions.closed);")
    main = tmp_path / "Main.java"
    main.write_text(
        "class Main { public static void main(String[] a) throws Exception { " + " ".join(lines) + " } }"
    )
    assert run(compiler, "-d", tmp_path / "out", "-sourcepath", f"{tmp_path}:{tmp_path / 'stub'}", main) == ""
    # Two sessions with one pool; two whose options stay open; two that close theirs.
    assert said(machine, "-XX:TieredStopAtLevel=1", "-cp", tmp_path / "out", "Main").split() == [
        "2",
        "2",
        "4",
    ]


def test_cpp_reads_the_quotas_of_its_groups(tmp_path: Path) -> None:
    compiler = needs("g++", "clang++")
    api_stubs.cpp(tmp_path)
    trees = {
        "none": ({}, "0"),
        "modern": (
            {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
             "sys/fs/cgroup/a/b/cpu.max": "max 100000\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"},
            "1.5",
        ),
        "inside": ({"proc/self/cgroup": "0::/../x\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, "0.5"),
        "old": (
            {"proc/self/cgroup": "4:cpu,cpuacct:/pod\n3:memory:/pod\n",
             "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us": "250000\n",
             "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us": "100000\n",
             "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
             "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n"},
            "2.5",
        ),
    }  # fmt: skip
    prints = []
    for name, (files, _) in trees.items():
        for file, text in files.items():
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text(text)
        prints.append(f'std::cout << tuned_model::cpu_quota("{tmp_path / name}") << "\\n";')
    (tmp_path / "load.cpp").write_text(emitted({})["load.cpp"])
    (tmp_path / "main.cpp").write_text('#include "load.cpp"\nint main() {\n' + "\n".join(prints) + "\n}")
    words = (
        compiler,
        "-std=c++17",
        f"-I{tmp_path}",
        tmp_path / "main.cpp",
        "-o",
        tmp_path / "main",
        "-pthread",
    )
    assert run(*words) == ""
    assert said(tmp_path / "main").split() == [expected for _, expected in trees.values()]


def test_rust_says_when_its_pool_is_refused(tmp_path: Path) -> None:
    compiler = needs("rustc")
    words = (compiler, "--edition", "2021", "--out-dir", tmp_path)
    problem = run(*words, "--crate-type", "rlib", "--crate-name", "ort", api_stubs.rust(tmp_path))
    if "rustup" in problem:
        pytest.skip(f"rustc does not run here: {problem.strip()}")
    (tmp_path / "load.rs").write_text(emitted({"global_thread_pool": 2})["load.rs"])
    # The second call too: what failed once is not taken for made.
    call = 'println!("{}", load::load(std::path::Path::new(".")).is_err());'
    (tmp_path / "main.rs").write_text(f"#![allow(dead_code)]\nmod load;\nfn main() {{\n{call}\n{call}\n}}\n")
    assert run(*words, "--extern", f"ort={tmp_path / 'libort.rlib'}", tmp_path / "main.rs") == ""
    assert said(tmp_path / "main").split() == ["true", "true"]
