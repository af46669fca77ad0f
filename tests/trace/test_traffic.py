"""What a cache still holds, counted by hand."""

from __future__ import annotations

import random

from ortune.trace.traffic import ExecutedNode, from_memory


def test_what_the_node_before_made_is_in_the_cache_and_what_came_long_before_is_not() -> None:
    steps = [
        ExecutedNode(node="a", writes={1: 60}),
        ExecutedNode(node="b", reads={1: 60}, writes={2: 30}),
        ExecutedNode(node="c", reads={2: 30}, writes={3: 90}),
        ExecutedNode(node="d", reads={3: 90, 1: 60}),
    ]
    # Between making 1 and its second use 120 other bytes were touched; before, it was read from the cache.
    assert from_memory(steps, {}, 100) == {"a": 0, "b": 0, "c": 0, "d": 60}
    assert from_memory(steps, {}, 180) == {"a": 0, "b": 0, "c": 0, "d": 0}
    # Of a value that fits partly that part stays, and what was lost had to be written first.
    assert from_memory(steps[:2], {}, 50) == {"a": 10, "b": 10}


def test_weights_stay_from_run_to_run_where_the_run_fits() -> None:
    steps = [ExecutedNode(node="a", writes={1: 10}), ExecutedNode(node="b", reads={1: 10}, writes={2: 10})]
    weights = {"a": 40.0, "b": 40.0}
    assert from_memory(steps, weights, 100) == {"a": 0, "b": 0}
    assert from_memory(steps, weights, 50) == {"a": 40, "b": 40}
    assert from_memory(steps, weights, 90) == {"a": 10, "b": 10}


def test_distances_are_those_of_a_plain_list() -> None:
    dice = random.Random(0)
    sizes = [dice.randint(1, 50) for _ in range(20)]
    steps = [
        ExecutedNode(node=str(i), reads={v: sizes[v] for v in dice.sample(range(20), 2)}) for i in range(200)
    ]
    recent: list[int] = []
    counted: dict[str, float] = {}
    for _ in range(2):
        for step in steps:
            counted[step.node] = 0
            for value, size in step.reads.items():
                after = recent[recent.index(value) + 1 :] if value in recent else range(20)
                since = sum(sizes[v] for v in after) if value in recent else float("inf")
                counted[step.node] += min(size, max(0, since + size - 200))
                recent = [v for v in recent if v != value] + [value]
    assert from_memory(steps, {}, 200) == counted
