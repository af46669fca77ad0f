"""Floors against hand-counted work on a made-up machine, and on a real product of matrices."""

from __future__ import annotations

import msgspec
import pytest

from ortune.records import MachinePeak, ProfiledNode
from ortune.trace.roofline import below_floor, floor, lost_ns, rate, with_floors
from ortune.trace.traffic import ExecutedNode

CACHE = 1_000_000
PEAK = MachinePeak(
    cpu="A Processor",
    flops_per_s={1: 100e9, 2: 200e9, 4: 360e9},
    int8_ops_per_s={1: 400e9, 2: 800e9},
    bytes_per_s={1: 20e9, 2: 40e9, 4: 40e9},
    cache_bytes=CACHE,
)


def node(name: str = "n", **fields: object) -> ProfiledNode:
    usual = ProfiledNode(name=name, op_type="Conv", time_ns=1e6, share_ratio=0.1, flops=1e6, bytes=1e3)
    return msgspec.structs.replace(usual, **fields)


def test_arithmetic_or_memory_whichever_takes_longer() -> None:
    assert floor(1e9, 1e6, kind="float32", threads=1, peak=PEAK) == (pytest.approx(10e6), "compute")
    assert floor(1e6, 1e9, kind="float32", threads=1, peak=PEAK) == (pytest.approx(50e6), "memory")
    assert floor(1e9, 0, kind="int8", threads=2, peak=PEAK) == (pytest.approx(1.25e6), "compute")
    assert floor(0, 0, kind="float32", threads=1, peak=PEAK) == (0.0, "")


@pytest.mark.parametrize(
    ("threads", "gflops"), [(1, 100), (2, 200), (3, 280), (4, 360), (64, 360), (0, 360), (-1, 360)]
)
def test_between_measured_threads_lies_a_straight_line(threads: int, gflops: float) -> None:
    assert rate(PEAK.flops_per_s, threads) == pytest.approx(gflops * 1e9)


def test_more_threads_reach_at_least_what_fewer_do() -> None:
    assert rate({1: 100.0, 2: 60.0, 4: 300.0}, 2) == 100.0
    assert rate({1: 100.0, 2: 60.0, 4: 300.0}, 3) == 200.0


def test_whole_numbers_take_the_larger_peak() -> None:
    slow = msgspec.structs.replace(PEAK, int8_ops_per_s={1: 50e9})
    assert floor(1e9, 0, kind="int8", threads=1, peak=slow)[0] == pytest.approx(10e6)
    nothing = msgspec.structs.replace(PEAK, int8_ops_per_s={}, flops_per_s={}, bytes_per_s={})
    assert floor(1e9, 1e9, kind="int8", threads=1, peak=nothing) == (0.0, "")


def test_int8_by_operator_by_name_and_by_the_callers_word() -> None:
    nodes = [node("a", flops=4e9), node("b", flops=4e9), node("c", flops=4e9, op_type="QLinearConv")]
    floors = [n.floor_ns for n in with_floors(nodes, PEAK, 1, int8={"b"})]
    assert floors == pytest.approx([40e6, 10e6, 10e6])
    assert with_floors(nodes, PEAK, 1, int8={"Conv"})[0].floor_ns == pytest.approx(10e6)


def test_unknown_work_and_other_devices_have_no_floor() -> None:
    unknown, device = with_floors(
        [node(flops=None, bytes=None), node(provider="CUDAExecutionProvider")], PEAK, 1
    )
    assert unknown.floor_ns is device.floor_ns is None
    assert lost_ns(unknown) == 0.0


def test_activations_count_beyond_the_cache_alone() -> None:
    small, large, thrice = with_floors(
        [
            node(flops=0, bytes=CACHE),
            node(flops=0, bytes=5 * CACHE),
            node(flops=0, bytes=15 * CACHE, calls=3.0),
        ],
        PEAK,
        1,
    )
    assert (small.floor_ns, small.bound) == (None, "")
    assert (large.floor_ns, large.bound) == (pytest.approx(4 * CACHE / 20), "memory")
    assert thrice.floor_ns == pytest.approx(3 * 4 * CACHE / 20)


def test_weights_count_where_those_of_all_nodes_do_not_fit() -> None:
    half = CACHE / 2
    nodes = [node(name, flops=0, bytes=half) for name in "abcd"]
    found = with_floors(nodes, PEAK, 1, weights=dict.fromkeys("abcd", half))
    # Of two caches full of weights one can stay: half of each comes from memory.
    assert [n.floor_ns for n in found] == pytest.approx([half / 2 / 20] * 4)
    fits = with_floors(nodes[:2], PEAK, 1, weights={"a": half, "b": half})
    assert [n.floor_ns for n in fits] == [None, None]


def test_a_body_that_fits_fetches_its_weights_once() -> None:
    def found(size: float) -> float | None:
        body = node("body", flops=0, bytes=10 * size, calls=10.0, inside="loop")
        rest = node("rest", flops=0, bytes=8 * CACHE)
        nodes = with_floors([body, rest], PEAK, 1, weights={"body": size, "rest": 8 * CACHE})
        return nodes[0].floor_ns

    assert found(CACHE / 2) == pytest.approx(CACHE / 2 * (1 - 1 / 8.5) / 20)
    assert found(2 * CACHE) == pytest.approx(10 * 2 * CACHE * (1 - 1 / 2) / 20)


def test_an_unknown_cache_leaves_arithmetic_alone() -> None:
    blind = msgspec.structs.replace(PEAK, cache_bytes=None)
    (found,) = with_floors([node(flops=1e9, bytes=9e8)], blind, 1, weights={"n": 9e8})
    assert (found.floor_ns, found.bound) == (pytest.approx(10e6), "compute")


def test_what_is_short_and_far_from_its_floor_is_bound_by_overhead() -> None:
    tiny, near, long, body, idle = with_floors(
        [
            node("tiny", flops=1e3, time_ns=4e3),
            node("near", flops=1e5, time_ns=4e3),
            node("long", flops=1e3, time_ns=4e5),
            node("body", flops=1e3, time_ns=4e5, calls=100.0),
            node("idle", flops=1e3, time_ns=0.0),
        ],
        PEAK,
        1,
    )
    assert [n.bound for n in (tiny, near, long, body, idle)] == [
        "overhead", "compute", "compute", "overhead", "compute",
    ]  # fmt: skip
    assert tiny.floor_ns == pytest.approx(10.0)
    # A product as small that takes longer was handed to threads; what else takes that long has worked, at what peak is
    # not known without that of elementwise work.
    product, other, large = with_floors(
        [
            node("product", flops=1e4, bytes=4e4, time_ns=4e4),
            node("other", op_type="Erf", flops=1e4, bytes=4e4, time_ns=4e4),
            node("large", flops=1e6, bytes=4e5, time_ns=9e4),
        ],
        PEAK,
        1,
    )
    assert [n.bound for n in (product, other, large)] == ["overhead", "", "compute"]
    assert other.floor_ns is None


def test_faster_than_the_floor_is_listed() -> None:
    over, near, one_step = with_floors(
        [
            node("over", flops=1e9, time_ns=5e6),
            node("near", flops=1e9, time_ns=9.9e6),
            node("one step", flops=1e5, time_ns=500.0),
        ],
        PEAK,
        1,
    )
    assert over.floor_ns == pytest.approx(10e6)
    assert lost_ns(over) == 0.0
    assert [n.name for n in below_floor([near, over, one_step])] == ["over"]
    (slow,) = with_floors([node(flops=1e9, time_ns=40e6)], PEAK, 1)
    assert lost_ns(slow) == pytest.approx(30e6)


CACHED = msgspec.structs.replace(PEAK, elementwise_bytes_per_s=100e9)


def test_elementwise_work_is_held_against_an_elementwise_peak() -> None:
    """An Add of 24 MB, of which all fits into a cache, is no product of matrices."""
    large = msgspec.structs.replace(CACHED, cache_bytes=32 << 20)
    add = node("add", op_type="Add", flops=2e6, bytes=24e6, time_ns=1e6)
    steps = [
        ExecutedNode(node="conv", writes={1: 8_000_000}),
        ExecutedNode(node="add", reads={1: 8_000_000}, writes={2: 8_000_000}),
    ]
    (found,) = with_floors([add], large, 2, steps=steps)
    assert (found.floor_ns, found.bound) == (pytest.approx(24e6 / 200), "memory")
    # An older version measured no such peak: that of products says nothing of it.
    older = msgspec.structs.replace(large, elementwise_bytes_per_s=0.0)
    (unknown,) = with_floors([add], older, 2, steps=steps)
    assert (unknown.floor_ns, unknown.bound) == (None, "")


def test_what_a_small_cache_lost_comes_from_memory() -> None:
    sizes = {1: 4 * CACHE}
    steps = [ExecutedNode(node="a", writes=sizes), ExecutedNode(node="b", reads=sizes, writes={2: 100})]
    nodes = [node("a", flops=1.0, bytes=4.0 * CACHE), node("b", flops=1.0, bytes=4.0 * CACHE + 100)]
    made, read = with_floors(nodes, CACHED, 1, steps=steps)
    # One cache full of it is still there.
    assert [n.floor_ns for n in (made, read)] == [pytest.approx(3 * CACHE / 20)] * 2
    assert (made.bound, read.bound) == ("memory", "memory")


def test_walking_trees_has_no_floor() -> None:
    (trees,) = with_floors([node(flops=4e9, op_type="TreeEnsembleRegressor")], PEAK, 1)
    assert trees.floor_ns is None
