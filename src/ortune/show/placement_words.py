"""The parts of a model that each execution provider runs, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortune.catalogue.providers import CPU, find, short_name
from ortune.printable import amount, first_of
from ortune.records import BrowserPlace, Placement, Plan, TrialDone
from ortune.show import output_words as compare_outputs
from ortune.show.document import Column, Table, table

_MOST_TYPES = 4


def placed(placement: Sequence[Placement]) -> list[str]:
    """Return a list with one sentence on the nodes of each execution provider; empty if the placement is unknown."""
    if not placement:
        return []
    total = sum(part.n_nodes for part in placement)
    first, *others = sorted(placement, key=lambda part: part.provider == CPU.name)
    # A provider that runs nodes one by one has as many parts as nodes, and no transfers between them.
    several = first.n_parts > 1 and find(first.provider).compiles
    pieces = f" in {first.n_parts} parts" if several else ""
    said = f"{short_name(first.provider)} runs {first.n_nodes} of {amount(total, 'node')}{pieces}"
    if not others:
        return [
            said
            if pieces
            else f"{short_name(first.provider)} runs {'the only node' if total == 1 else f'all {total} nodes'}"
        ]
    stayed = "; ".join(
        f"{part.n_nodes} stayed on {short_name(part.provider)}: {_types(part)}" for part in others
    )
    return [f"{said}; {stayed}"]


def placed_or_why(placement: Sequence[Placement], plan: Plan, build: str) -> list[str]:
    """Return ``placed``, or a note on why the placement is unknown if the plan's provider is not the CPU.

    Args:
        placement: Placement reported by the process.
        plan: Plan of the process.
        build: Name and version of the ONNX Runtime build.
    """
    said = placed(placement)
    if said or plan.is_web or plan.is_node or plan.provider_names[0] == CPU.name:
        return said
    return [f"unknown: {build} does not report it (ONNX Runtime 1.24 and later do)"]


def _types(part: Placement) -> str:
    ranked = sorted(part.operators.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{count} {name}" for name, count in ranked[:_MOST_TYPES])
    return named + (", ..." if len(ranked) > _MOST_TYPES else "")


NAMED = 5


def in_browser(name: str, done: TrialDone) -> list[str]:
    """Return a line on a browser's nodes by provider, and on operators without a kernel; empty outside of a browser."""
    page = done.page
    if page is None or not done.placement:
        return []
    lacking = page.without_kernel
    why = f"; no kernel for {first_of(lacking, NAMED)}" if lacking else ""
    return [f"{name}: {placed(done.placement)[0]}{why}"]


def kernels_there(counts: Mapping[str, int]) -> list[str]:
    """Return a line with each side's number of GPU kernels per run; empty if there are no counts.

    ``counts`` maps the names of the sides to their numbers.
    """
    parts = ", ".join(f"{name} {count}" for name, count in counts.items())
    return [f"kernels per run on the GPU: {parts}"] if parts else []


def kernels_not_counted(name: str, why: str) -> str:
    """Return a sentence that says why a side's kernels were not counted."""
    return f"kernels of {name} were not counted: {why}"


def frames_lost(sides: Mapping[str, Sequence[TrialDone]]) -> list[str]:
    """Return a line with the frames that each side's page drops per run; empty without a page."""
    means = {
        name: sum(page.frames_lost for page in pages) / len(pages)
        for name, trials in sides.items()
        if (pages := [done.page for done in trials if done.page is not None])
    }
    parts = ", ".join(f"{name} {mean:.1f}" for name, mean in means.items())
    return [f"dropped frames per run at 60 Hz: {parts}"] if parts else []


STATES = {
    "raced": "compared",
    "timed": "only its default was timed",
    "ran": "ran once, untimed",
    "functional-only": "functional only: its GPU is emulated, so times mean nothing",
    "failed": "does not run this model",
    "absent": "not offered",
    "not-tried": "not tested: budget too small",
}


def places(browsers: Sequence[BrowserPlace]) -> Table:
    """Return a table of the browser's targets with the model's result on each target; no rows without a browser."""
    return table(
        [Column(head, "text") for head in ("in the browser", "", "nodes", "outputs")],
        [
            (
                place.target,
                ": ".join(part for part in (STATES[place.state], place.why) if part),
                "; ".join(placed(place.placement)),
                compare_outputs.outputs(place.outputs).removeprefix("outputs ") if place.outputs else "",
            )
            for place in browsers
        ],
    )
