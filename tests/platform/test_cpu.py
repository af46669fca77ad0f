from __future__ import annotations

import os
import sys

import pytest

from ortune.platform import cpu
from ortune.platform.reading import cpu_list, read_int, read_text

SYSTEM = "sys/devices/system/cpu"


def x86_block(number: int, core: int, flags: str) -> str:
    return (
        f"processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)  CPU @ 2.00GHz\n"
        f"cpu MHz\t\t: 2000.123\nphysical id\t: 0\ncore id\t\t: {core}\nflags\t\t: {flags}\n\n"
    )


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8,10-11", (0, 1, 2, 3, 8, 10, 11)), ("0", (0,)), ("", ()), ("x-3,5", (5,)), ("3-", (3,))],
)
def test_cpu_list(text, cpus):
    assert cpu_list(text) == cpus


def test_unreadable_files_are_none(tree):
    root = tree({"number": "-12\n", "word": "max\n", "folder/": ""})
    assert read_int(root / "number") == -12
    assert read_int(root / "word") is None
    assert read_text(root / "folder") is None
    assert read_text(root / "absent") is None


def test_hardware_threads_are_not_cores(tree):
    flags = "fpu sse2 avx2 fma avx512f avx512_vnni amx_int8"
    root = tree(
        {
            "proc/cpuinfo": "".join(x86_block(n, n % 2, flags) for n in range(4)),
            f"{SYSTEM}/online": "0-3\n",
            **{f"{SYSTEM}/cpu{n}/topology/thread_siblings_list": f"{n % 2},{n % 2 + 2}\n" for n in range(4)},
        }
    )
    found = cpu.processor(root)
    assert found.model == "Intel(R) Xeon(R) CPU @ 2.00GHz"
    assert (found.cores, found.logical) == (2, 4)
    assert found.features == ("amx_int8", "avx2", "avx512_vnni", "avx512f", "fma")


def test_cores_from_cpuinfo_where_sys_is_hidden(tree):
    root = tree({"proc/cpuinfo": "".join(x86_block(n, n // 2, "avx2") for n in range(4))})
    assert (cpu.processor(root).cores, cpu.processor(root).logical) == (2, 4)


def test_only_features_that_every_core_has(tree):
    root = tree({"proc/cpuinfo": x86_block(0, 0, "avx2 avx512f") + x86_block(1, 1, "avx2")})
    assert cpu.processor(root).features == ("avx2",)


def test_arm_has_no_model_name_but_numbers(tree):
    block = (
        "processor\t: {n}\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd asimddp sve i8mm bf16\n"
        "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: {part}\n\n"
    )
    root = tree({"proc/cpuinfo": "".join(block.format(n=n, part="0xd40") for n in range(2))})
    found = cpu.processor(root)
    assert found.model == "Arm Neoverse-V1"
    assert found.features == ("asimddp", "bf16", "i8mm", "sve")
    tree({"proc/cpuinfo": block.format(n=0, part="0xfff")})
    assert cpu.processor(root).model == "Arm implementer 0x41 part 0xfff"


def test_a_board_names_itself_after_the_last_processor(tree):
    root = tree(
        {
            "proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd asimddp\n\nModel\t\t: Raspberry Pi 5 Rev 1.0\n"
        }
    )
    assert cpu.processor(root).model == "Raspberry Pi 5 Rev 1.0"
    assert cpu.processor(root).features == ("asimddp",)


def test_nothing_readable_is_one_unknown_core(tmp_path):
    assert cpu.processor(tmp_path) == cpu.Processor(model="unknown", cores=1, logical=1, features=())
    assert cpu.topology(tmp_path) == cpu.Topology()


def test_intel_hybrid_names_its_kinds(tree):
    root = tree(
        {
            f"{SYSTEM}/online": "0-5\n",
            "sys/devices/cpu_core/cpus": "0-3\n",
            "sys/devices/cpu_atom/cpus": "4-5\n",
        }
    )
    found = cpu.topology(root)
    assert (found.performance_cpus, found.efficiency_cpus) == ((0, 1, 2, 3), (4, 5))
    assert found.note.startswith("4 fast and 2 slower CPUs")


def test_arm_capacities_tell_the_kinds(tree):
    capacities = {0: 400, 1: 400, 2: 1024, 3: 1024}
    files = {f"{SYSTEM}/cpu{n}/cpu_capacity": f"{value}\n" for n, value in capacities.items()}
    found = cpu.topology(tree({f"{SYSTEM}/online": "0-3\n", **files}))
    assert (found.performance_cpus, found.efficiency_cpus) == ((2, 3), (0, 1))


@pytest.mark.parametrize(("slow_khz", "slower"), [(5_500_000, ()), (3_900_000, (1,))])
def test_favoured_cores_are_not_another_kind(tree, slow_khz, slower):
    root = tree(
        {
            f"{SYSTEM}/online": "0-1\n",
            f"{SYSTEM}/cpu0/cpufreq/cpuinfo_max_freq": "5700000\n",
            f"{SYSTEM}/cpu1/cpufreq/cpuinfo_max_freq": f"{slow_khz}\n",
            f"{SYSTEM}/cpu0/cpufreq/scaling_governor": "powersave\n",
        }
    )
    found = cpu.topology(root)
    assert found.efficiency_cpus == slower
    assert found.governor == "powersave"


def test_memory_nodes_in_order_without_empty_ones(tree):
    node = "sys/devices/system/node"
    root = tree(
        {
            f"{SYSTEM}/online": "0-3\n",
            f"{node}/node10/cpulist": "2-3\n",
            f"{node}/node2/cpulist": "0-1\n",
            f"{node}/node3/cpulist": "\n",
        }
    )
    assert cpu.topology(root).numa_nodes == ((0, 1), (2, 3))


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_this_machine_has_a_processor():
    found = cpu.processor()
    assert 1 <= found.cores <= found.logical
    assert found.logical >= len(os.sched_getaffinity(0))


def caches(*cpus: tuple[int, str]) -> dict[str, str]:
    """Three levels: the last is shared as given, and the instructions have a larger one of their own."""
    files = {}
    for number, shared in cpus:
        for index, (level, kind, size, who) in enumerate(
            [
                ("1", "Data", "32K", str(number)),
                ("3", "Instruction", "512M", str(number)),
                ("2", "Unified", "1024K", str(number)),
                ("3", "Unified", "32768K", shared),
            ]
        ):
            folder = f"{SYSTEM}/cpu{number}/cache/index{index}"
            files |= {f"{folder}/level": level, f"{folder}/type": kind, f"{folder}/size": size}
            files |= {f"{folder}/shared_cpu_list": who}
    return files


def test_the_last_cache_counts_once_for_all_that_share_it(tree):
    root = tree(caches((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")))
    assert cpu.cache_bytes([0, 1], root) == 32 << 20
    assert cpu.cache_bytes([0, 2, 3], root) == 64 << 20


@pytest.mark.parametrize("size", ["", "K", "many", "12T"])
def test_a_cache_without_a_size_is_not_known(tree, size):
    folder = f"{SYSTEM}/cpu0/cache/index0"
    root = tree({f"{folder}/level": "3", f"{folder}/type": "Unified", f"{folder}/size": size})
    assert cpu.cache_bytes([0], root) is None
    assert cpu.cache_bytes([7], root) is None
