from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ortune.platform import SensorSnapshot, between, read_sensors
from ortune.platform.cgroup import Throttling
from ortune.platform.group import own_cpu_s
from ortune.records import Sensors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

SYSTEM = "sys/devices/system/cpu"


def level(group: str, periods: int, throttled: int, us: int) -> Throttling:
    return Throttling(group=group, nr_periods=periods, nr_throttled=throttled, throttled_us=us)


def test_every_sensor_from_its_file(tree):
    cpus = sorted(os.sched_getaffinity(0))[:4]
    per_cpu = {
        "cpufreq/scaling_cur_freq": "2500000\n",
        "cpufreq/scaling_governor": "schedutil\n",
        "thermal_throttle/core_throttle_count": "3\n",
        "thermal_throttle/package_throttle_count": "10\n",
    }
    root = tree(
        {
            "proc/loadavg": "1.25 0.80 0.40 2/345 6789\n",
            "proc/pressure/cpu": "some avg10=1.00 avg60=0.5 avg300=0.1 total=123456\nfull avg10=0.00 total=9\n",
            "proc/stat": "cpu  10 0 20 300 4 0 5 77 0 0\ncpu0 5 0 10 150 2 0 2 38 0 0\n",
            "proc/meminfo": "MemTotal: 100 kB\nSwapCached: 1 kB\nSwapTotal:   2048 kB\nSwapFree:    1024 kB\n",
            "proc/self/cgroup": "0::/a\n",
            "proc/self/mountinfo": "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n",
            "cg/a/cpu.stat": "nr_periods 20\nnr_throttled 2\nthrottled_usec 900\n",
            **{f"{SYSTEM}/cpu{cpu}/{name}": text for cpu in cpus for name, text in per_cpu.items()},
        }
    )
    assert read_sensors(root) == SensorSnapshot(
        load1=1.25,
        psi_cpu_some_us=123456,
        busy_us=(10 + 0 + 20 + 0 + 5) * 1_000_000 // os.sysconf("SC_CLK_TCK"),
        steal_ticks=77,
        throttling=(level(str(root / "cg/a"), 20, 2, 900),),
        cpu_mhz=2500.0,
        governor="schedutil",
        swap_bytes=1 << 20,
        thermal_throttles=10 + 3 * len(cpus),
    )


def test_clock_from_cpuinfo_where_there_is_no_cpufreq(tree):
    root = tree({"proc/cpuinfo": "processor : 0\ncpu MHz\t\t: 2596.140\ncache size : 1\n"})
    assert read_sensors(root).cpu_mhz == pytest.approx(2596.14)


def test_nothing_readable_is_none(tmp_path):
    assert read_sensors(tmp_path) == SensorSnapshot()


@pytest.mark.parametrize("text", ["", "cpu 1 2", "intr 1 2 3 4 5 6 7 8 9", "garbage"])
def test_odd_files_are_not_known(tree, text):
    root = tree({"proc/stat": text, "proc/loadavg": text, "proc/pressure/cpu": text, "proc/meminfo": text})
    assert read_sensors(root) == SensorSnapshot()


def test_between_takes_differences_of_counters_and_the_last_gauge():
    before = SensorSnapshot(load1=1.0, psi_cpu_some_us=100, steal_ticks=5, swap_bytes=1, thermal_throttles=3)
    after = SensorSnapshot(load1=2.0, psi_cpu_some_us=150, steal_ticks=5, swap_bytes=9, thermal_throttles=4)
    seen = between(before, after, involuntary_switches=7, cpu_over_wall=0.9)
    assert (seen.load1, seen.psi_cpu_some_us, seen.steal_ticks) == (2.0, 50, 0)
    assert (seen.swap_bytes, seen.thermal_throttles) == (9, 1)
    assert (seen.involuntary_switches, seen.cpu_over_wall) == (7, 0.9)
    assert seen.nr_throttled is None


def test_what_others_took_is_what_ortune_did_not():
    before, after = SensorSnapshot(busy_us=1_000, own_us=400), SensorSnapshot(busy_us=9_000, own_us=7_900)
    assert between(before, after).others_cpu_us == 500
    assert (
        between(before, SensorSnapshot(busy_us=9_000, own_us=9_000)).others_cpu_us == 0
    )  # clock ticks are coarse
    assert between(before, SensorSnapshot(busy_us=9_000)).others_cpu_us is None


@pytest.mark.parametrize(
    ("waited", "others", "found"), [(400, 30, 30), (300, 700, 300), (400, None, 400), (None, 30, None)]
)
def test_nobody_waited_longer_for_others_than_they_worked(waited, others, found):
    assert Sensors(psi_cpu_some_us=waited, others_cpu_us=others).waited_us == found


def test_the_work_of_its_children_is_its_own():
    before = own_cpu_s()
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        assert own_cpu_s() - before >= 0.25
        child.communicate(b"\n")
    assert own_cpu_s() - before >= 0.25  # waited for


def test_a_counter_that_went_back_is_not_known():
    seen = between(SensorSnapshot(steal_ticks=9, thermal_throttles=1), SensorSnapshot(steal_ticks=8))
    assert seen.steal_ticks is None
    assert seen.thermal_throttles is None


def test_the_most_throttled_level_stands_for_all():
    before = SensorSnapshot(throttling=(level("pod", 10, 1, 100), level("app", 10, 5, 9000)))
    after = SensorSnapshot(
        throttling=(level("pod", 30, 11, 5100), level("app", 30, 6, 9500), level("new", 9, 9, 9))
    )
    seen = between(before, after)
    assert (seen.nr_periods, seen.nr_throttled, seen.throttled_us) == (20, 10, 5000)


def test_this_machine_reads_twice():
    first, second = read_sensors(), read_sensors()
    seen = between(first, second)
    assert first.load1 is not None
    assert seen.steal_ticks is None or seen.steal_ticks >= 0
    assert seen.swap_bytes is None or seen.swap_bytes >= 0


def test_no_task_waits_longer_than_the_time_that_went_by() -> None:
    assert Sensors(psi_cpu_some_us=1_500_000, elapsed_ns=10**9).waited_ratio(10**12) == 1.0
    assert Sensors(psi_cpu_some_us=300_000).waited_ratio(10**9) == 0.3
    assert Sensors().waited_ratio(10**9) is None
