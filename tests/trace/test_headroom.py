"""The sentence on what can still be won, in each of its forms."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from facts import facts
from ortune.records import Category, CategoryName, Headroom, ProfiledNode
from ortune.show import headroom_words
from ortune.trace import headroom as measured
from ortune.trace.headroom import Conditions

WALL = 1000.0
AT = Conditions(slowdown=1.0, threads=16, cpus=16)


def node(name: str, time_ns: float, floor_ns: float | None, **fields: object) -> ProfiledNode:
    usual = ProfiledNode(
        name=name, op_type="Conv", time_ns=time_ns, share_ratio=time_ns / WALL, floor_ns=floor_ns,
        bound="" if floor_ns is None else "compute",
    )  # fmt: skip
    return msgspec.structs.replace(usual, **fields)


def headroom(
    categories: list[Category], nodes: list[ProfiledNode], fast_ns: float, at: Conditions = measured.UNKNOWN
) -> Headroom:
    """With its sentence."""
    return headroom_words.worded(measured.headroom(categories, nodes, fast_ns, at))


def found(nodes: list[ProfiledNode], at: Conditions = AT, **shares: float) -> Headroom:
    categories = [Category(name=name.replace("_", "-"), ns=ns) for name, ns in shares.items()]  # type: ignore[arg-type]
    return headroom(categories, nodes, WALL, at)


def test_near_the_peak() -> None:
    seen = found([node("a", 920, 837.2)], kernels=920, thread_wait=50, between_nodes=30)
    assert seen.settings_ratio == pytest.approx(0.08)
    assert seen.parts["thread-wait"] == pytest.approx(0.05)
    assert seen.kernels_ratio == pytest.approx(0.91)
    assert seen.covered_ratio == 1.0
    assert seen.sentence == (
        "8 % of the run is outside the kernels (thread wait 5, overhead 3); the kernels run at 91 % of this machine's "
        "peak: only int8 or another engine will help"
    )


def test_fewer_threads_than_cpus_leave_most_to_settings() -> None:
    alone = Conditions(slowdown=1.0, threads=1, cpus=16)
    seen = found([node("a", 920, 837.2)], alone, kernels=920, thread_wait=50, between_nodes=30)
    facts(seen.sentence, "8 % of the run", "(thread wait 5, overhead 3)", "more threads", "1 of 16 CPUs")
    facts(seen.sentence, "91 % of one thread's peak", "only more threads, int8")
    four = found([node("a", 995, 500)], Conditions(slowdown=1.0, threads=4, cpus=16), kernels=995).sentence
    facts(four, "almost none", "more threads", "4 of 16 CPUs")
    assert "50 % of 4 threads' peak: more threads, fusions" in four and "this machine" not in four


@pytest.mark.parametrize(
    ("slowdown", "words"),
    [
        (1.05, "8 % of the run is outside the kernels (overhead 8);"),
        (1.16, "(overhead 8; this includes the profiler overhead);"),
        (1.29, "(overhead 8; this includes the profiler overhead);"),
        (None, "(overhead 8; this includes an unknown profiler overhead);"),
    ],
)
def test_the_profilers_own_cost_is_told(slowdown: float | None, words: str) -> None:
    at = Conditions(slowdown=slowdown, threads=2, cpus=2)
    seen = found([node("a", 920, 900)], at, kernels=920, between_nodes=80)
    assert seen.settings_ratio == pytest.approx(0.08) and words in seen.sentence


def test_a_run_that_is_mostly_the_profilers_tells_no_percentage() -> None:
    at = Conditions(slowdown=5.94, threads=2, cpus=2)
    seen = found([node("a", 400, 390)], at, kernels=400, between_nodes=600)
    assert (seen.settings_ratio, seen.kernels_ratio, seen.parts) == (None, None, {})
    facts(seen.sentence, "the profiler", "factor of 5.9", "ortune tune")


@pytest.mark.parametrize(("near", "known"), [(0.71, 0.95), (0.95, 0.51), (0.89, 0.95), (0.95, 0.89)])
def test_only_nearly_all_of_the_kernels_near_their_peak_leave_nothing(near: float, known: float) -> None:
    nodes = [node("a", known * 900, near * known * 900), node("b", (1 - known) * 900, None)]
    seen = found(nodes, kernels=900, between_nodes=100)
    facts(seen.sentence, "10 % of the run", "int8", "may help")
    assert "only" not in seen.sentence


def test_far_from_the_peak_settings_may_reach_into_kernels() -> None:
    seen = found(
        [node("slow", 600, 60), node("quick", 300, 120, op_type="MatMul")], kernels=900, between_nodes=100
    )
    facts(seen.sentence, "10 % of the run", "(overhead 10)", "20 % of this machine's peak", "may help")
    facts(
        seen.sentence,
        "most expensive: slow (Conv, 75 % of the lost time), quick (MatMul, 25 % of the lost time)",
    )


def test_without_floors_nothing_is_said_of_kernels() -> None:
    seen = found([node("a", 990, None)], kernels=990)
    assert seen.kernels_ratio is None
    assert seen.covered_ratio == 0.0
    facts(seen.sentence, "almost none", "kernel efficiency", "unknown")


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (300, "is known for only 30 % of kernel time"),
        (
            800,
            "90 % of this machine's peak in the 80 % of kernel time for which it is known: int8 or another "
            "engine may help",
        ),
    ],
)
def test_what_is_not_known_is_said(known: float, words: str) -> None:
    seen = found([node("a", known, 0.9 * known), node("b", 1000 - known, None)], kernels=1000)
    assert words in seen.sentence
    assert seen.covered_ratio == pytest.approx(known / 1000)


@pytest.mark.parametrize(
    ("where", "remedy"),
    [
        ("between-nodes", "I/O binding"),
        ("outside-run", "I/O binding"),
        ("thread-wait", "fewer threads"),
        ("casts-and-layout", "one type and one layout"),
        ("device-copies", "on one device"),
        ("shape-arithmetic", "fixed shapes"),
    ],
)
def test_where_kernels_are_the_smaller_part(where: CategoryName, remedy: str) -> None:
    seen = headroom([Category(name=where, ns=700.0)], [node("a", 300, 290)], WALL, AT)
    assert "less than half" in seen.sentence
    assert remedy in seen.sentence


def test_bound_by_memory_or_in_int8_already() -> None:
    assert "memory bandwidth: only smaller weights" in found([node("a", 1000, 900, bound="memory")]).sentence
    assert "already in int8" in found([node("a", 1000, 900, op_type="QLinearConv")]).sentence


def test_where_nodes_are_too_short_overhead_bounds_them() -> None:
    short = [node(f"n{i}", 90, 1, bound="overhead", calls=0.02) for i in range(9)]
    seen = found([*short, node("a", 100, 90)], kernels=910, between_nodes=90)
    assert seen.overhead_ratio == pytest.approx(810 / 910)
    facts(seen.sentence, "0 executions of 4.5 us", "too short")
    assert "per-node overhead dominates" in seen.sentence and "% of this machine's peak" not in seen.sentence
    few = found([short[0], node("a", 900, 810)], kernels=990)
    assert "% of this machine's peak" in few.sentence and few.overhead_ratio == pytest.approx(90 / 990)


def test_a_run_that_waits_for_a_device_is_told_so() -> None:
    seen = found([node("a", 100, 1)], kernels=100, device_wait=880, between_nodes=20)
    assert seen.settings_ratio == pytest.approx(0.02)
    facts(seen.sentence, "88 % of the run", "the device")
    assert "peak" not in seen.sentence


def test_the_dearest_are_called_as_the_user_calls_them() -> None:
    seen = found([node("r1_nchwc", 1000, 10, originals=("conv1", "relu1"))])
    assert "most expensive: conv1 (Conv" in seen.sentence and "nchwc" not in seen.sentence


def test_waiting_that_the_floor_needs_is_not_won() -> None:
    # Two threads share 1000 ns of work evenly: one may wait 300 of it, and nothing is lost.
    even = found([node("a", 1000, 1000, wait_ns=300)], kernels=700, thread_wait=300)
    assert even.settings_ratio == 0.0
    assert even.kernels_ratio == 1.0
    half = found([node("a", 1000, 800, wait_ns=300)], kernels=700, thread_wait=300)
    assert half.settings_ratio == pytest.approx(0.2)
    assert half.kernels_ratio == pytest.approx(1.0)


def test_percents_add_up_to_their_sum() -> None:
    seen = found(
        [node("a", 885, 885)], thread_wait=24, between_nodes=34, device_copies=24, casts_and_layout=33
    )
    text = seen.sentence
    shown = text[text.index("(") + 1 : text.index(")")]
    assert text.startswith(f"{round(100 * seen.settings_ratio)} % of the run")
    assert sum(int(part.rsplit(" ", 1)[1]) for part in shown.split(", ")) == round(100 * seen.settings_ratio)


def test_nodes_faster_than_their_floor_say_nothing_of_the_peak() -> None:
    # Clocks of whole microseconds allow a little; beyond it the floor is wrong.
    seen = found(
        [node("a", 500e3, 900e3, wait_ns=100e3), node("b", 500e3, 250e3)],
        kernels=900,
        thread_wait=100,
    )
    assert (seen.kernels_ratio, seen.covered_ratio) == (pytest.approx(0.5), pytest.approx(0.5))
    assert seen.settings_ratio == pytest.approx(0.1), "a wrong floor needs no waiting"
    assert found([node("a", 500, 900), node("b", 500, 250)]).kernels_ratio == pytest.approx(0.75)


def test_a_peak_that_all_kernels_exceed_is_said_to_be_too_low() -> None:
    seen = found([node("a", 500e3, 900e3)], kernels=900)
    assert seen.kernels_ratio is None
    facts(seen.sentence, "peak is unknown", "stored peak", "ortune doctor")


def test_no_run_at_all() -> None:
    seen = headroom([], [], 0.0)
    assert seen.settings_ratio == 0.0
    assert seen.kernels_ratio is None


def test_long_names_are_cut() -> None:
    assert len(found([node("x" * 5000, 1000, 10)]).sentence) < 400


def test_nothing_is_promised_of_settings_that_reach_into_kernels() -> None:
    for floor in (100, 850, 990):
        assert "at most" not in found([node("a", 1000, floor)], kernels=900, thread_wait=100).sentence


def test_what_was_not_let_be_optimised_is_not_bounded() -> None:
    at = dataclasses.replace(AT, unbounded="graph optimisation is off")
    seen = found([node("a", 990, 980)], at, kernels=990, between_nodes=10)
    facts(
        seen.sentence, "saving is unknown", at.unbounded, "1 % of the run", "(overhead 1)", "99 %", "may help"
    )
    assert seen.unbounded == at.unbounded
    disturbed = dataclasses.replace(at, slowdown=3.0)
    assert found([node("a", 990, 980)], disturbed).sentence.startswith("the possible saving")


def test_the_fast_end_is_what_counts() -> None:
    """However long the executions take that something disturbs, the kernels are as near to their peak."""
    for mean, wait in ((1000, 100), (9000, 4000)):
        slow = node("a", mean, 500, fast_ns=800.0, fast_wait_ns=50.0, wait_ns=wait)
        seen = found([slow], kernels=750, thread_wait=50, between_nodes=200)
        assert seen.kernels_ratio == pytest.approx(500 / 750) and seen.parts["thread-wait"] == 0.05
    assert "or more" not in seen.sentence


def test_where_the_cpus_were_wanted_by_others_the_nearness_is_no_figure() -> None:
    """Two busy processes beside made 60 % of 93 %, at the fast end too."""
    at = dataclasses.replace(AT, busy="CPU contention 80 %, load 6.1", plain_ns=900.0)
    seen = found([node("a", 1000, 570)], at, kernels=1000)
    assert seen.kernels_ratio is None and seen.plain_kernels_ratio == 0.0
    assert "peak is unknown: CPU contention 80 %, load 6.1" in seen.sentence
    slowed = dataclasses.replace(at, slowdown=2.0, plain_ns=1000.0)
    assert "peak" not in headroom([], [node("a", 900, 450)], 2000.0, slowed).sentence


@pytest.mark.parametrize(
    ("faster_ns", "doubted", "known"), [(200, True, False), (200, False, True), (50, True, True)]
)
def test_a_peak_that_was_measured_once_and_that_many_nodes_exceed_bounds_none(
    faster_ns: float, doubted: bool, known: bool
) -> None:
    """One node whose work is over-counted is another matter, and so is a peak that a second measurement found again."""
    at = dataclasses.replace(AT, peak_doubted=doubted)
    seen = found([node("fast", faster_ns, 3000), node("slow", 1000 - faster_ns, 700)], at, kernels=1000)
    assert (seen.kernels_ratio is not None) == known
    assert ("stored peak" in seen.sentence) == (not known)


def test_kernels_take_no_longer_than_the_run_without_the_profiler() -> None:
    at = dataclasses.replace(AT, slowdown=2.5, plain_ns=800.0)
    seen = found([node("a", 900, 490)], at, kernels=900, between_nodes=100)
    assert seen.kernels_ratio == pytest.approx(490 / 800)
    # The run at its best tells what the profiler can cost, not one that something else made longer.
    # And so many executions take the profiler only so long, however busy the machine was.
    assert at.cost(1e9, 1000) == pytest.approx(1 / 0.98)
    assert at.cost(800.0) == 1.0 and at.cost(1600.0) == 2.0 and at.cost(8000.0) == 2.5


def test_a_peak_of_another_version_and_one_that_is_missing_are_told() -> None:
    at = dataclasses.replace(AT, peak_of="measured with onnxruntime 1.2.3")
    assert "peak (measured with onnxruntime 1.2.3):" in found([node("a", 990, 900)], at).sentence
    at = dataclasses.replace(AT, no_peak="no time was left")
    assert found([node("a", 990, None)], at).sentence.endswith(f"peak is unknown: {at.no_peak}")


def test_a_run_that_is_mostly_the_profilers_still_bounds_its_kernels() -> None:
    at = dataclasses.replace(AT, slowdown=2.0, plain_ns=1000.0)
    seen = headroom([], [node("a", 900, 450)], 2000.0, at)
    facts(seen.sentence, "ortune tune", "45 % or more", "this machine's peak")
    assert "peak" not in headroom([], [node("a", 900, 90)], 2000.0, at).sentence
    busy = dataclasses.replace(at, busy="CPU contention 80 %")
    facts(
        headroom([], [node("a", 900, None)], 2000.0, busy).sentence,
        "the profiler and other programs",
        "(CPU contention 80 %)",
        "factor of 2.0",
    )
