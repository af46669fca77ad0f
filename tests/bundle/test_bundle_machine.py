from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ortune import platform
from ortune.bundle import machine
from ortune.platform import cgroup

MODERN = "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
OLD = "30 1 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
TREES = {
    "none": {},
    "modern": {
        "proc/self/cgroup": "0::/a/b\n",
        "proc/self/mountinfo": MODERN,
        "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
    },
    "old": {
        "proc/self/cgroup": "4:cpu,cpuacct:/pod\n3:memory:/pod\n",
        "proc/self/mountinfo": OLD,
        "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    },
    "bind mount": {
        "proc/self/cgroup": "0::/kube/pod/box\n",
        "proc/self/mountinfo": "25 1 0:22 /kube/pod /my\\040groups rw - cgroup2 cgroup2 rw\n",
        "my groups/box/cpu.max": "300000 100000\n",
        "my groups/cpu.max": "250000 100000\n",
    },
}


def planted(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("name", TREES)
def test_quota_as_the_tuner_reads_it(tmp_path: Path, name: str) -> None:
    root = planted(tmp_path, TREES[name])
    expected = cgroup.cpu_quota(cgroup.find_groups(root))
    assert min(machine._quotas(root), default=None) == expected
    allowed = platform.host().affinity
    assert machine.cpus(root) == min(allowed, math.ceil(expected) if expected else allowed)


def test_threads_are_bounded_on_fewer_cpus_alone(tmp_path: Path) -> None:
    here = machine.cpus(tmp_path)
    assert machine.threads(here + 2, here, tmp_path) == machine.threads(here + 2, 1, tmp_path) == here + 2
    assert machine.threads(here + 2, here + 1, tmp_path) == here
    assert machine.threads(1, here + 1, tmp_path) == 1


@pytest.mark.parametrize("library", [object(), type("Refuses", (), {"prctl": lambda *_: -1})()])
def test_huge_pages_that_stay_on_are_told(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda _: library)
    assert machine.forbid_huge_pages().startswith("cannot set transparent_huge_pages=never")


def test_this_machine_is_as_the_tuner_reads_it() -> None:
    host = platform.host()
    assert machine.cpus() == host.effective_cpus
    assert machine.cpu_name() in (host.cpu, "")
    assert machine.other_hardware(msgspec.to_builtins(host)) == ""
    assert machine.other_hardware({}) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"machine": "riscv64"}, "tuned on riscv64"),
        ({"features": ["amx_int9"]}, "no amx_int9 here"),
        ({"cpu": "Another"}, "tuned on Another"),
    ],
)
def test_other_hardware_is_named(change: dict[str, object], said: str) -> None:
    if "cpu" in change and not machine.cpu_name():
        pytest.skip("this system gives the processor no name")
    assert said in machine.other_hardware({**msgspec.to_builtins(platform.host()), **change})


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("flags\t: fma avx2", "openvino_precision=bf16 needs avx512_bf16 or amx_bf16"),
        ("flags\t: fma avx2 amx_bf16", ""),
        ("Features\t: asimd", "openvino_precision=bf16 needs avx512_bf16 or amx_bf16"),
        ("model name\t: a processor", ""),  # a system that does not say
    ],
)
def test_a_number_type_that_the_processor_lacks_is_named(tmp_path: Path, flags: str, said: str) -> None:
    root = planted(tmp_path, {"proc/cpuinfo": f"{flags}\n"})
    needed = {"openvino_precision=bf16": ["avx512_bf16", "amx_bf16"]}
    assert machine.without_instructions(needed, root) == said
    assert machine.without_instructions({}, root) == ""


def test_allocators_are_those_that_can_be_tuned() -> None:
    for name in platform.INSTALL_HINTS:
        found, expected = machine.allocator_library(name), platform.allocator_library(name)
        assert bool(found) == (expected is not None)
        assert not found or Path(found).samefile(str(expected))


def test_an_allocator_is_found_by_its_usual_names(tmp_path: Path) -> None:
    root = planted(
        tmp_path, {"usr/lib64/libtcmalloc_minimal.so.4.5": "", "usr/lib64/libtcmalloc_minimal.so.4": ""}
    )
    assert machine.allocator_library("tcmalloc", root).endswith("libtcmalloc_minimal.so.4")
    assert machine.allocator_library("mimalloc", root) == ""


BRAND = """
#include <string.h>
int sysctlbyname(const char *name, void *old, size_t *size, void *set, size_t n) {
  if (strcmp(name, "machdep.cpu.brand_string") || *size < 9) return -1;
  memcpy(old, "Apple M2", 9);
  *size = 9;
  return 0;
}
"""


def test_the_name_of_a_mac_is_its_brand(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler and the preloading of Linux")
    # macOS's function in a library of our own: the tuner and the bundle must read the same name there.
    (tmp_path / "brand.c").write_text(BRAND)
    library = tmp_path / "brand.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "brand.c"], check=True)
    code = (
        "from ortune.bundle import machine; from ortune.platform import other; "
        "print([machine.brand(), other.cpu_name(), other.host().cpu])"
    )
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(["Apple M2"] * 3)
    assert machine.brand() == ""


def test_an_allocator_is_in_the_process_or_is_not(tmp_path: Path) -> None:
    maps = tmp_path / "proc" / "self" / "maps"
    maps.parent.mkdir(parents=True)
    maps.write_text(
        "7f00-7f01 r-xp 00000000 08:01 42 /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4.5.9\n"
    )
    assert machine.without_allocator([], "", tmp_path) == ""
    assert machine.without_allocator(["tcmalloc"], "", tmp_path) == ""
    said = "allocator not loaded: jemalloc (Debian: apt install libjemalloc-dev)"
    # What was to be preloaded is no proof that it was.
    assert machine.without_allocator(["tcmalloc", "jemalloc"], "/gone/libjemalloc.so.2", tmp_path) == said


def test_where_no_maps_are_shown_the_variable_tells(tmp_path: Path) -> None:
    assert machine.without_allocator(["mimalloc"], "libmimalloc.so.2", tmp_path) == ""
    assert "libmimalloc-dev" in machine.without_allocator(["mimalloc"], "", tmp_path)


def test_another_build_is_told_by_its_version() -> None:
    assert machine.other_build("1.31.1", "1.31.1") == machine.other_build("", "1.31.1") == ""
    assert machine.other_build("1.31.1", "1.30.0") == "onnxruntime 1.30.0 here, tuned with 1.31.1"
