"""Emitted code under its compilers, against stubs made from the table; where one is missing the test says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from compiling import TOOLS, cpp, java, judged, on_hosts, rust, said
from emitted_code import emitted, forms, plans

from ortune import platform
from ortune.records import Value


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("load.cpp", "SetGlobalInterOpNumThreads(1)", "SetGlobalInterOpNumThreads()"),
        ("load.rs", "with_memory_pattern", "with_mem"),
        ("Load.java", "setCPUArenaAllocator", "setCpuArena"),
        ("Load.kt", "setCPUArenaAllocator", "setCpuArena"),
        ("Load.cs", "EnableCpuMemArena", "EnableArena"),
    ],
)
def test_compiles(file: str, right: str, wrong: str, tmp_path: Path) -> None:
    assert TOOLS[file].compiled(tmp_path, forms(file)).problem == ""
    planted = plans()["everything"][file].replace(right, wrong)
    assert wrong.rstrip("()") in TOOLS[file].compiled(tmp_path, [planted]).problem


@pytest.mark.parametrize("file", list(TOOLS))
def test_knows_its_machine(file: str, tmp_path: Path) -> None:
    tool = TOOLS[file]
    made = tool.compiled(tmp_path, on_hosts(file), tool.questions())
    assert made.problem == ""
    judged(said(*made.command))


def test_cpp_knows_its_runtime_and_its_allocator(tmp_path: Path) -> None:
    level: dict[str, Value] = {"graph_optimization_level": "disable"}
    all_files = [emitted({"allocator": "mimalloc"}), emitted(level), emitted(level, bound=True)]
    body = [f'std::cout << p{n}::without_allocator() << p{n}::other_build() << "\\n";' for n in range(3)]
    made = cpp(tmp_path, [files["load.cpp"] for files in all_files], body)
    assert made.problem == ""
    # The stub's version is not the bundle's, which matters to a bound model alone.
    assert said(*made.command).splitlines() == ["1", "0", "0onnxruntime 1.24.2 here, tuned with 1.31.1"]
    library = platform.allocator_library("mimalloc")
    if library is not None:
        assert said("env", f"LD_PRELOAD={library}", *made.command).splitlines()[0] == "0"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no thread can be pinned here")
def test_threads_of_the_program_run_the_work_on_their_cpus_and_are_joined(tmp_path: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    pinned = emitted({"intra_op_thread_affinities": str(allowed[0] + 1)})["load.cpp"]  # counted from 1
    pool = emitted({"global_thread_pool": 2})["load.cpp"]
    body = [
        "OrtThreadWorkerFn work = [](void* seen) { "
        "sched_getaffinity(0, sizeof(cpu_set_t), static_cast<cpu_set_t*>(seen)); };"
    ]
    for number in range(2):
        body += [
            f"cpu_set_t seen{number};",
            f"const auto hooks{number} = p{number}::own_threads();",
            f"hooks{number}.join(hooks{number}.create(hooks{number}.options, work, &seen{number}));",
            f'std::cout << CPU_COUNT(&seen{number}) << CPU_ISSET({allowed[0]}, &seen{number}) << "\\n";',
        ]
    made = cpp(tmp_path, [pinned, pool], body)
    assert made.problem == ""
    assert said(*made.command).split() == ["11", f"{len(allowed)}1"]


def test_java_makes_its_pool_once_and_keeps_operators_loaded(tmp_path: Path) -> None:
    plans_of = (
        emitted({"global_thread_pool": 2}),
        emitted({}, custom_ops=("custom_ops/0-a.so",)),
        emitted({"intra_op_num_threads": 2}),
    )
    body = ['java.nio.file.Path here = java.nio.file.Path.of(".");']
    for number in range(3):
        body += [f"p{number}.Load.load(here);"] * 2
        body.append("System.out.println(ai.onnxruntime.OrtSession.SessionOptions.closed);")
    made = java(tmp_path, [files["Load.java"] for files in plans_of], body)
    assert made.problem == ""
    # Two sessions with one pool; two whose options stay open; two that close theirs.
    assert said(*made.command).split() == ["2", "2", "4"]


def test_cpp_reads_the_quotas_of_its_groups(tmp_path: Path) -> None:
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
    body = []
    for name, (files, _) in trees.items():
        for file, text in files.items():
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text(text)
        body.append(f'std::cout << p0::cpu_quota("{tmp_path / name}") << "\\n";')
    made = cpp(tmp_path, [emitted({"intra_op_num_threads": 2})["load.cpp"]], body)
    assert made.problem == ""
    assert said(*made.command).split() == [expected for _, expected in trees.values()]


def test_rust_says_when_its_pool_is_refused(tmp_path: Path) -> None:
    # The second call too: what failed once is not taken for made.
    call = 'println!("{}", p0::load(std::path::Path::new(".")).is_err());'
    made = rust(tmp_path, [emitted({"global_thread_pool": 2})["load.rs"]], [call, call])
    assert made.problem == ""
    assert said(*made.command).split() == ["true", "true"]
