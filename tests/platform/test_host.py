from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import psutil
import pytest

from ortune import launcher, platform
from ortune.platform import linux, other
from ortune.platform.gpu import gpu_names
from ortune.platform.summary import make_host
from ortune.records import Host

GIB = 1 << 30
FACTS = {
    "system": "Linux", "machine": "x86_64", "cpu": "A", "cores": 8, "logical": 16, "affinity": 16, "quota": None,
    "memory_bytes": 32 * GIB, "memory_limit_bytes": None, "features": ("avx2", "fma"), "gpus": (),
}  # fmt: skip

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.mark.parametrize(
    ("affinity", "quota", "effective"),
    [(16, None, 8), (3, None, 3), (16, 2.5, 3), (16, 0.1, 1), (2, 4.0, 2), (16, 64.0, 8)],
)
def test_effective_cpus_is_the_least_of_all_limits_rounded_up(affinity, quota, effective):
    assert make_host(**{**FACTS, "affinity": affinity, "quota": quota}).effective_cpus == effective


def test_a_limit_above_the_machine_is_no_limit():
    assert make_host(**{**FACTS, "memory_limit_bytes": 64 * GIB}).memory_limit_bytes is None
    assert make_host(**{**FACTS, "memory_limit_bytes": 4 * GIB}).memory_limit_bytes == 4 * GIB


def test_the_fingerprint_changes_with_what_changes_speed_only():
    fingerprint = make_host(**FACTS).fingerprint
    assert make_host(**{**FACTS, "features": ("fma", "avx2")}).fingerprint == fingerprint
    assert make_host(**{**FACTS, "memory_bytes": 32 * GIB - (5 << 20)}).fingerprint == fingerprint
    changes = [("cpu", "B"), ("affinity", 4), ("quota", 2.0), ("memory_bytes", 16 * GIB), ("gpus", ("X",))]
    changed = {make_host(**{**FACTS, name: value}).fingerprint for name, value in changes}
    assert len(changed | {fingerprint}) == len(changes) + 1


@needs_linux
def test_this_host_agrees_with_psutil_and_survives_json():
    host = platform.host()
    assert host.memory_bytes == psutil.virtual_memory().total
    assert host.affinity == len(os.sched_getaffinity(0))
    assert host.logical == psutil.cpu_count()
    assert host.cores == (psutil.cpu_count(logical=False) or host.logical)
    assert msgspec.json.decode(msgspec.json.encode(host), type=Host) == host
    assert platform.host().fingerprint == host.fingerprint


@needs_linux
def test_a_whole_tree_of_another_machine(tree):
    root = tree(
        {
            "proc/cpuinfo": "processor : 0\nmodel name : Box\nflags : avx2 fma\n\n",
            "proc/meminfo": "MemTotal:       8388608 kB\nMemAvailable:    4194304 kB\nHugePages_Total:       0\n",
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/cpu.max": "50000 100000\n",
            "sys/fs/cgroup/memory.max": f"{2 * GIB}\n",
            "sys/fs/cgroup/memory.current": f"{GIB // 2}\n",
        }
    )
    host = linux.host(root)
    assert (host.cpu, host.quota, host.effective_cpus) == ("Box", 0.5, 1)
    assert (host.memory_bytes, host.memory_limit_bytes) == (8 * GIB, 2 * GIB)
    assert linux.memory_left_bytes(root) == 3 * GIB // 2
    tree({"sys/fs/cgroup/memory.max": "max\n"})
    assert linux.memory_left_bytes(root) == 4 * GIB


@needs_linux
def test_memory_left_is_no_more_than_the_machine_has():
    left = platform.memory_left_bytes()
    assert left is not None
    assert 0 < left <= psutil.virtual_memory().total


def test_memory_of_a_process_and_of_none():
    mine = platform.process_memory_bytes(os.getpid())
    assert mine is not None
    assert 1 << 20 < mine < psutil.virtual_memory().total
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    assert platform.process_memory_bytes(child.pid) is None
    assert other.process_memory_bytes(child.pid) is None


def test_without_proc_the_rest_is_left_open():
    host = other.host()
    assert host.cores >= 1
    assert host.quota is None
    assert host.features == ()
    assert other.read_sensors().psi_cpu_some_us is None
    assert (other.memory_left_bytes() or 0) > 0


def test_gpu_names_from_the_drivers_files(tree):
    root = tree(
        {
            "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA L4\nIRQ:   \t\t 42\n",
            "dev/dri/renderD128": "",
            "dev/dri/renderD129": "",
            "dev/dri/renderD130": "",
            "sys/class/drm/renderD128/device/vendor": "0x10de\n",
            "sys/class/drm/renderD128/device/device": "0x27b8\n",
            "sys/class/drm/renderD129/device/vendor": "0x8086\n",
            "sys/class/drm/renderD129/device/device": "0x46a6\n",
            "sys/class/drm/renderD130/device/uevent": "DRIVER=panfrost\nOF_NAME=gpu\n",
        }
    )
    assert gpu_names(root) == ("NVIDIA L4", "Intel GPU 8086:46a6 (renderD129)", "panfrost GPU (renderD130)")


def test_no_gpu(tmp_path):
    assert gpu_names(tmp_path) == ()


def test_a_tool_that_is_not_installed_is_not_started(tmp_path, monkeypatch):
    started = []
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(launcher, "run", lambda command, **how: started.append(command))
    gpu_names()
    assert not started
