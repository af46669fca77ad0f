"""What rules find on machines, runtimes and environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from ortune import rules
from ortune.platform import SensorSnapshot, Topology
from ortune.platform.cgroup import Throttling
from ortune.records import Finding, Host, ProviderReport, Runtime, RuntimeReport

HEALTHY = Host(
    system="Linux", machine="x86_64", cpu="Box", cores=8, logical=16, affinity=16, effective_cpus=8,
    memory_bytes=1 << 34, features=("avx2", "avx512_vnni", "fma"),
)  # fmt: skip


def findings(
    host: Host,
    runtimes: Sequence[RuntimeReport],
    environment: Mapping[str, str],
    topology: Topology = Topology(),  # noqa: B008 -- frozen
    now: SensorSnapshot = SensorSnapshot(),  # noqa: B008 -- frozen
) -> list[Finding]:
    facts = rules.Facts(host=host, runtimes=runtimes, environment=environment, topology=topology, sensors=now)
    return list(rules.findings(facts))


def host(**changes: object) -> Host:
    return Host(**{**{name: getattr(HEALTHY, name) for name in HEALTHY.__struct_fields__}, **changes})


def report(**facts: object) -> RuntimeReport:
    return RuntimeReport(runtime=Runtime(python="/venv/bin/python", ort_version="1.31.1"), **facts)


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1
    assert found[0].evidence
    assert found[0].fix
    return found[0]


def test_a_healthy_machine_has_nothing_to_say():
    good = report(providers=(ProviderReport(name="CPUExecutionProvider", in_build=True, usable=True),))
    absent = ProviderReport(
        name="CUDAExecutionProvider", in_build=False, usable=False, why="not in this build"
    )
    calm = SensorSnapshot(swap_bytes=1 << 20, throttling=(level(1000, 2),), thermal_throttles=0)
    one_node = Topology(numa_nodes=((0, 1),), governor="performance")
    assert findings(HEALTHY, [good, report(providers=(absent,))], {}, topology=one_node, now=calm) == []


def level(periods: int, throttled: int) -> Throttling:
    return Throttling(group="/cg/app", nr_periods=periods, nr_throttled=throttled, throttled_us=2_500_000)


def test_two_builds():
    both = {"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.30.0"}
    found = only(findings(HEALTHY, [report(overlapping=both), report(problems=("other",))], {}))
    assert (found.code, found.severity) == ("ENV001", "error")
    assert found.evidence.startswith("onnxruntime 1.31.1 and onnxruntime-gpu 1.30.0 ")
    assert "pip uninstall -y onnxruntime onnxruntime-gpu," in found.fix
    assert found.where == ("/venv/bin/python",)


def test_a_provider_in_the_build_that_cannot_be_used():
    broken = ProviderReport(
        name="CUDAExecutionProvider", in_build=True, usable=False, why="libcudnn is missing"
    )
    found = only(findings(HEALTHY, [report(providers=(broken,))], {}))
    assert found.code == "ENV006"
    assert found.evidence == "CUDAExecutionProvider: libcudnn is missing"


def test_governor_wherever_it_was_read():
    by_topology = only(findings(HEALTHY, [], {}, topology=Topology(governor="powersave")))
    by_sensors = only(findings(HEALTHY, [], {}, now=SensorSnapshot(governor="powersave")))
    assert by_topology == by_sensors
    assert by_topology.code == "ENV002"


@pytest.mark.parametrize(
    ("now", "cause"),
    [
        (SensorSnapshot(throttling=(level(100, 40),)), "the CPU quota throttled this process"),
        (SensorSnapshot(thermal_throttles=12), "heat throttled the CPU"),
        (
            SensorSnapshot(throttling=(level(100, 1),), thermal_throttles=1),
            "this process, and heat throttled the CPU",
        ),
    ],
)
def test_throttled(now, cause):
    found = only(findings(HEALTHY, [], {}, now=now))
    assert found.code == "ENV009"
    assert found.what.endswith(cause)


def test_swap_in_use():
    found = only(findings(HEALTHY, [], {}, now=SensorSnapshot(swap_bytes=3 << 30)))
    assert found.code == "ENV003" and found.evidence.startswith("3072 MiB of swap")


def test_no_int8_dot_product_unless_nothing_was_read():
    assert only(findings(host(features=("avx2", "fma")), [], {})).code == "ENV004"
    assert findings(host(features=()), [], {}) == []
    assert findings(host(features=("asimddp",)), [], {}) == []


def test_omp_variable_is_not_read():
    found = only(findings(HEALTHY, [], {"OMP_NUM_THREADS": "2"}))
    assert found.code == "ENV005"
    assert "OMP_NUM_THREADS=2" in found.evidence
    assert findings(HEALTHY, [], {"OMP_NUM_THREADS": "2", "ORT_INTRA_OP_NUM_THREADS": "2"}) == []


def test_mixed_cores_and_memory_nodes():
    topology = Topology(efficiency_cpus=(8, 9), note="8 fast and 2 slower CPUs", numa_nodes=((0, 1), (2, 3)))
    found = findings(HEALTHY, [], {}, topology=topology)
    assert [each.code for each in found] == ["ENV007", "ENV008"]
    assert found[1].evidence == "nodes with 2, 2 CPUs"


@pytest.mark.parametrize(
    ("changes", "environment", "evidence"),
    [
        ({"quota": 1.5, "effective_cpus": 2}, {}, "the machine has 8 cores, the CPU quota allows 1.5"),
        ({"affinity": 4, "effective_cpus": 4}, {}, "the machine has 8 cores, the affinity allows 4"),
        ({}, {"ORT_INTRA_OP_NUM_THREADS": "12"}, "ORT_INTRA_OP_NUM_THREADS=12"),
    ],
)
def test_more_threads_than_can_run(changes, environment, evidence):
    found = only(findings(host(**changes), [], environment))
    assert (found.code, found.evidence) == ("THR001", evidence)
    (fewer,) = found.plan.settings.values()
    assert fewer == host(**changes).effective_cpus


@pytest.mark.parametrize("asked", ["2", "1"])
def test_threads_that_were_set_to_fit_are_fine(asked):
    limited = host(quota=1.5, effective_cpus=2)
    assert findings(limited, [], {"ORT_INTRA_OP_NUM_THREADS": asked}) == []


def test_a_variable_that_is_not_read_yet_changes_nothing():
    environment = {"OMP_NUM_THREADS": "1", "ORT_INTRA_OP_NUM_THREADS": "1"}
    limited = rules.Facts(host=host(quota=1.5, effective_cpus=2), environment=environment)
    told = [found.code for found in rules.findings(replace(limited, ort_version="1.28.0"))]
    assert sorted(told) == ["ENV005", "THR001"]
    assert rules.findings(replace(limited, ort_version="1.29.0")) == ()


def test_threads_of_a_page_are_not_the_machine_s():
    limited = rules.Facts(host=host(quota=1.5, effective_cpus=2), environment={"OMP_NUM_THREADS": "1"})
    assert len(rules.findings(limited)) == 2
    assert rules.findings(replace(limited, target="web-wasm")) == ()
