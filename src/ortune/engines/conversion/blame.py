"""Names the node at fault by comparing the values of a wrong model with the values of a correct conversion."""

from __future__ import annotations

from pathlib import Path

from ortune.engines.bisection.find import BisectedSide, find
from ortune.errors import OrtuneError
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import ResolvedSide
from ortune.outputs import pairing
from ortune.records import FeedRef, NotFinite, Parting


def node_at_fault(
    right: ResolvedSide,
    wrong: ResolvedSide,
    feed: FeedRef,
    baseline: Measuring,
    folder: Path,
) -> tuple[Parting | None, NotFinite | None]:
    """Return where a wrong model's values diverge from a correct model's, and where they become non-finite.

    Either is None if not found.

    Args:
        right: A conversion of the same source with correct outputs.
        wrong: The model at fault.
        feed: Inputs of the wrong model that show the fault.
        baseline: Baseline of either model; its processes run both.
        folder: New folder for models and samples.
    """
    try:
        ours, theirs = right.model.ir, wrong.model.ir
        inputs = pairing.pair_inputs(theirs, ours, {}, "the correct conversion")
        (ref,) = pairing.feeds_for((feed,), ours, inputs, folder / "feeds", "the correct conversion")
        outputs = pairing.pair_outputs(ours, theirs)
        joined = dict(inputs) | {mine: its for its, mine in outputs.items()}
        divergence = find(
            BisectedSide(name="A", resolved=right, model=right.model, feed=ref).as_file(),
            BisectedSide(name="B", resolved=wrong, model=wrong.model, feed=feed).as_file(),
            joined,
            baseline.executor,
            folder / "values",
            0,
            baseline.line,
        )
    except OrtuneError:
        return None, None  # the models have different inputs, or one does not run with its values as outputs
    overflow = next((value for value in divergence.not_finite if value.side == "B"), None)
    return (divergence.partings[0] if divergence.partings else None), overflow
