"""What a profile shows, in one sentence each: findings with nodes and evidence, and what the figures rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ortune.records import ProfiledNode, ProfileResult
from ortune.trace.roofline import below_floor
from ortune.trace.steady import drifts

if TYPE_CHECKING:
    from ortune.profiling.nodes import Origins

UNEXPLAINED = 0.02
DOMINANT = 0.3
WAITS = 0.1
BETWEEN = 0.15
LAYOUT = 0.05
DISTURBED = 1.25
FAR_FROM_FLOOR = 5.0
WORTH_NAMING = 0.05
DRIFTED = 0.05
NAMED = 3
UNEVEN = 2.0
LONGEST = 100  # characters of a name in a sentence


def findings(result: ProfileResult) -> tuple[str, ...]:
    """What stands out, the largest share first."""
    return tuple(_findings(result))


def notes(result: ProfileResult, known: Sequence[Origins]) -> tuple[str, ...]:
    """What the figures rest on.

    Args:
        result: What was found.
        known: What is known of each side's graph.
    """
    return tuple(_notes(result, known))


def _findings(result: ProfileResult) -> Iterator[str]:
    wall = result.wall_ns
    if not wall:
        return
    share: dict[str, float] = {c.name: c.ns / wall for c in result.categories}
    if result.nodes and result.nodes[0].time_ns > DOMINANT * wall:
        node = result.nodes[0]
        yield f"{_name(node)} alone takes {_percent(node.time_ns / wall)} of the run"
    if share["thread-wait"] > WAITS:
        waiting = sorted(result.nodes, key=lambda n: -n.wait_ns)[:NAMED]
        names = ", ".join(_name(node) for node in waiting if node.wait_ns > 0)
        yield (
            f"{_percent(share['thread-wait'])} of the run is waiting for threads, most of it in {names}"
            f"{_imbalance(result)}: fewer threads, spinning or another block size may help"
        )
    if share["between-nodes"] > BETWEEN:
        calls = sum(node.calls for node in result.nodes)
        yield (
            f"{_percent(share['between-nodes'])} of the run lies between {calls:.0f} nodes "
            f"({share['between-nodes'] * wall / max(calls, 1) / 1000:.1f} us each, profiling included): "
            "fewer nodes, or larger batches, have less of it"
        )
    if share["device-idle"] > BETWEEN:
        yield (
            f"{_percent(share['device-idle'])} of the run the device is idle between kernels: it waits for the host, "
            "of which the trace tells nothing"
        )
    if share["device-wait"] > WAITS:
        yield (
            f"{_percent(share['device-wait'])} of the run waits for the device and moves inputs and outputs there and "
            "back: what runs there decides, and not the nodes' time on the host"
        )
    for name, words in (
        ("casts-and-layout", "casts, transposes and quantizing"),
        ("device-copies", "copies between devices"),
        ("shape-arithmetic", "computing shapes"),
    ):
        if share[name] > LAYOUT:
            mine = [n for n in result.nodes if n.category == name][:NAMED]
            yield f"{_percent(share[name])} of the run is {words}: {', '.join(_name(n) for n in mine)}"
    yield from _far(result, wall)
    remarked = [n for n in result.nodes if n.remark and n.time_ns > WORTH_NAMING * wall][:NAMED]
    for node in remarked:
        yield f"{_name(node)}, {_percent(node.time_ns / wall)} of the run: {node.remark}"
    steady = result.variance.runs_ns[result.variance.left_out_runs :] if result.variance else ()
    drift = drifts(steady)
    if abs(drift) > DRIFTED:
        why = (
            "clocks fell, memory filled, or another program began"
            if drift > 0
            else "they were not warmed up, or another program ended"
        )
        yield (
            f"the last third of the runs is {_percent(abs(drift))} {'slower' if drift > 0 else 'faster'} than the "
            f"first: {why}; the mean run is neither"
        )
    if abs(share["unexplained"]) > UNEXPLAINED:
        yield (
            f"{_percent(share['unexplained'])} of the run is unexplained: "
            + (
                "something else had the CPU while no node ran"
                if share["unexplained"] > 0
                else "the parts add up to more than the whole"
            )
        )


def _imbalance(result: ProfileResult) -> str:
    """How much of the waiting is because others were not done, and whether the work went to all of them alike."""
    waits = sum(node.wait_ns for node in result.nodes)
    if not waits:
        return ""
    late = sum(node.imbalance_ns for node in result.nodes) / waits
    text = f" ({_percent(late)} of it until others were done with their parts, {_percent(1 - late)} sharing out work"
    pieces = result.pieces
    if pieces and pieces[0] > UNEVEN * pieces[-1]:
        text += f"; of the pool's threads one took {pieces[0]:,} parts in the whole profile, another {pieces[-1]:,}"
    return f"{text})"


def _far(result: ProfileResult, wall: float) -> Iterator[str]:
    far = [
        n
        for n in result.nodes
        if n.category == "kernels"
        and n.floor_ns
        and n.bound != "overhead"
        and n.least_ns > FAR_FROM_FLOOR * n.floor_ns
        and n.time_ns > WORTH_NAMING * wall
    ][:NAMED]
    for node in far:
        assert node.floor_ns is not None
        kind = "" if node.op_type.lower() in _name(node).lower() else f" ({node.op_type})"
        yield (
            f"{_name(node)}{kind} takes {node.least_ns / node.floor_ns:.0f} times what its {node.bound} "
            f"needs on the threads it may use, {_percent(node.time_ns / wall)} of the run"
        )


def _notes(result: ProfileResult, known: Sequence[Origins]) -> Iterator[str]:
    if result.slowdown_ratio is not None and result.slowdown_ratio > DISTURBED:
        yield (
            f"profiling made the run {result.slowdown_ratio:.2f} times as long: small nodes and the time between "
            "them look larger than they are"
        )
    below = below_floor(result.nodes)
    if below:
        names = ", ".join(_name(node) for node in below[:NAMED])
        more = f" and {len(below) - NAMED} more" if len(below) > NAMED else ""
        yield (
            f"faster than what the machine's peak allows: {names}{more}; their work is over-counted or the peak too "
            "low (ortune doctor measures it again), so the headroom leaves them out"
        )
    for side, origins in zip(("A", "B"), known, strict=False):
        if origins.trouble:
            yield f"{side}: {origins.trouble}" if len(known) > 1 else origins.trouble
    unknown = known[0].lifetimes.n_unknown if known else 0
    if result.memory is not None and result.memory.source == "liveness" and unknown:
        values = "value is" if unknown == 1 else "values are"
        yield f"memory: {unknown} {values} of unknown size and not counted"


def _name(node: ProfiledNode) -> str:
    name = node.originals[0] if node.originals else node.name
    more = f" (+{len(node.originals) - 1})" if len(node.originals) > 1 else ""
    return (name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}...{name[-LONGEST // 2 :]}") + more


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
