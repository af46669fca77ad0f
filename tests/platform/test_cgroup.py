"""Control groups are read from trees in the kernel's own format: both versions, nested, hidden, unlimited."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortune.platform import cgroup

MIB = 1 << 20
V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "25 19 0:21 / /proc rw shared:5 - proc proc rw\n"
    "31 30 0:28 {root} /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:29 {root} /sys/fs/cgroup/memory rw shared:11 master:2 - cgroup cgroup rw,memory\n"
)
V1_CPU, V1_MEMORY = "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/memory"
NO_LIMIT = "9223372036854771712\n"


def v1_member(path: str) -> str:
    return f"5:memory:{path}\n4:cpu,cpuacct:{path}\n1:name=systemd:{path}\n"


def test_v2_takes_the_tightest_of_all_ancestors(tree):
    root = tree(
        {
            "proc/self/cgroup": "0::/kubepods/pod1/app\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
            "sys/fs/cgroup/kubepods/cpu.max": "max 100000\n",
            "sys/fs/cgroup/kubepods/memory.max": f"{512 * MIB}\n",
            "sys/fs/cgroup/kubepods/memory.current": f"{500 * MIB}\n",
            "sys/fs/cgroup/kubepods/memory.stat": f"anon 5\ninactive_file {100 * MIB}\n",
            "sys/fs/cgroup/kubepods/pod1/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/kubepods/pod1/memory.max": "max\n",
            "sys/fs/cgroup/kubepods/pod1/app/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/kubepods/pod1/app/memory.max": f"{768 * MIB}\n",
            "sys/fs/cgroup/kubepods/pod1/app/memory.current": f"{300 * MIB}\n",
            "sys/fs/cgroup/kubepods/pod1/app/memory.stat": "inactive_file 0\n",
        }
    )
    groups = cgroup.find_groups(root)
    assert cgroup.cpu_quota(groups) == 1.5
    assert cgroup.memory_limit_bytes(groups) == 512 * MIB
    # kubepods: 512 - (500 - 100) = 112 MiB; app: 768 - 300 = 468 MiB.
    assert cgroup.memory_left_bytes(groups) == 112 * MIB


def test_v2_without_limits(tree):
    root = tree(
        {
            "proc/self/cgroup": "0::/user.slice\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user.slice/memory.max": "max\n",
            "sys/fs/cgroup/user.slice/memory.current": "1000\n",
        }
    )
    groups = cgroup.find_groups(root)
    assert [level.folder for level in groups.cpu] == [
        root / "sys/fs/cgroup/user.slice",
        root / "sys/fs/cgroup",
    ]
    assert cgroup.cpu_quota(groups) is None
    assert cgroup.memory_limit_bytes(groups) is None
    assert cgroup.memory_left_bytes(groups) is None


def test_v2_namespace_where_the_group_is_the_mount(tree):
    root = tree(
        {
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/cpu.max": "50000 100000\n",
            "sys/fs/cgroup/memory.max": f"{MIB}\n",
        }
    )
    groups = cgroup.find_groups(root)
    assert cgroup.cpu_quota(groups) == 0.5
    assert cgroup.memory_limit_bytes(groups) == MIB


def test_a_group_outside_the_namespace_reads_the_mount_point(tree):
    root = tree(
        {
            "proc/self/cgroup": "0::/../../other.slice\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/cpu.max": "300000 100000\n",
        }
    )
    assert cgroup.cpu_quota(cgroup.find_groups(root)) == 3.0


def test_v1_nested(tree):
    root = tree(
        {
            "proc/self/cgroup": v1_member("/batch/job7"),
            "proc/self/mountinfo": V1_MOUNTS.format(root="/"),
            f"{V1_CPU}/cpu.cfs_quota_us": "-1\n",
            f"{V1_CPU}/cpu.cfs_period_us": "100000\n",
            f"{V1_CPU}/batch/cpu.cfs_quota_us": "250000\n",
            f"{V1_CPU}/batch/cpu.cfs_period_us": "100000\n",
            f"{V1_CPU}/batch/job7/cpu.cfs_quota_us": "-1\n",
            f"{V1_CPU}/batch/job7/cpu.cfs_period_us": "100000\n",
            f"{V1_MEMORY}/memory.limit_in_bytes": NO_LIMIT,
            f"{V1_MEMORY}/batch/memory.limit_in_bytes": f"{64 * MIB}\n",
            f"{V1_MEMORY}/batch/memory.usage_in_bytes": f"{40 * MIB}\n",
            f"{V1_MEMORY}/batch/memory.stat": f"inactive_file 1\ntotal_inactive_file {8 * MIB}\n",
            f"{V1_MEMORY}/batch/job7/memory.limit_in_bytes": NO_LIMIT,
            f"{V1_MEMORY}/batch/job7/memory.usage_in_bytes": f"{30 * MIB}\n",
        }
    )
    groups = cgroup.find_groups(root)
    assert cgroup.cpu_quota(groups) == 2.5
    assert cgroup.memory_limit_bytes(groups) == 64 * MIB
    assert cgroup.memory_left_bytes(groups) == 32 * MIB


def test_v1_container_sees_only_its_own_group_and_the_limit_above_it(tree):
    # Docker on version 1: the mount's root is the container's group, and the path is the host's.
    root = tree(
        {
            "proc/self/cgroup": v1_member("/docker/4a57"),
            "proc/self/mountinfo": V1_MOUNTS.format(root="/docker/4a57"),
            f"{V1_CPU}/cpu.cfs_quota_us": "120000\n",
            f"{V1_CPU}/cpu.cfs_period_us": "50000\n",
            f"{V1_MEMORY}/memory.limit_in_bytes": NO_LIMIT,
            f"{V1_MEMORY}/memory.usage_in_bytes": f"{10 * MIB}\n",
            f"{V1_MEMORY}/memory.stat": f"hierarchical_memory_limit {90 * MIB}\ntotal_inactive_file 0\n",
        }
    )
    groups = cgroup.find_groups(root)
    assert cgroup.cpu_quota(groups) == 2.4
    assert cgroup.memory_limit_bytes(groups) == 90 * MIB
    assert cgroup.memory_left_bytes(groups) == 80 * MIB


def test_both_versions_at_once(tree):
    root = tree(
        {
            "proc/self/cgroup": v1_member("/svc") + "0::/svc\n",
            "proc/self/mountinfo": V1_MOUNTS.format(root="/")
            + "33 30 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            f"{V1_CPU}/svc/cpu.cfs_quota_us": "200000\n",
            f"{V1_CPU}/svc/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/unified/svc/cgroup.procs": "1\n",
        }
    )
    groups = cgroup.find_groups(root)
    assert cgroup.cpu_quota(groups) == 2.0
    assert {level.version for level in groups.cpu} == {1, 2}


def test_a_mount_point_with_a_space_in_it(tree):
    root = tree(
        {
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": "30 23 0:26 / /mnt/my\\040groups rw - cgroup2 none rw\n",
            "mnt/my groups/cpu.max": "100000 100000\n",
        }
    )
    assert cgroup.cpu_quota(cgroup.find_groups(root)) == 1.0


@pytest.mark.parametrize("quota", ["", "max", "abc 100000", "100000", "100000 0", "0x10 10"])
def test_an_unreadable_quota_is_no_quota(tree, quota):
    root = tree(
        {
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/cpu.max": quota,
        }
    )
    assert cgroup.cpu_quota(cgroup.find_groups(root)) is None


def test_a_system_without_control_groups(tmp_path: Path):
    groups = cgroup.find_groups(tmp_path)
    assert groups == cgroup.Groups(cpu=(), memory=())
    assert cgroup.cpu_quota(groups) is None
    assert cgroup.throttling(groups) == ()


def test_throttling_in_both_units(tree):
    root = tree(
        {
            "proc/self/cgroup": v1_member("/") + "0::/svc\n",
            "proc/self/mountinfo": V1_MOUNTS.format(root="/") + "33 30 0:38 / /cg2 rw - cgroup2 cgroup2 rw\n",
            f"{V1_CPU}/cpu.stat": "nr_periods 100\nnr_throttled 7\nthrottled_time 5000000\n",
            "cg2/cpu.stat": "usage_usec 5\nuser_usec 3\nsystem_usec 2\n",
            "cg2/svc/cpu.stat": "usage_usec 5\nnr_periods 20\nnr_throttled 2\nthrottled_usec 900\n",
        }
    )
    levels = {level.group: level for level in cgroup.throttling(cgroup.find_groups(root))}
    assert len(levels) == 2
    assert levels[str(root / V1_CPU)].throttled_us == 5000
    assert levels[str(root / "cg2/svc")].throttled_us == 900
    assert levels[str(root / "cg2/svc")].nr_throttled == 2
