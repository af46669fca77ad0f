"""Removes rewrites that have no effect, because ONNX Runtime's optimiser produces the same graph without them.

Clean-up rewrites prepare for the rewrites after them. Whether they are needed is decided without timing, by comparing
the optimised graphs. For one text recogniser, three of eight were removed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from ortune import monotonic, rewrites
from ortune.errors import OrtuneError
from ortune.graph.fingerprints import model_fingerprint
from ortune.measuring.measuring import Measuring
from ortune.measuring.pace import Pace
from ortune.measuring.rewriting import ModelVariants
from ortune.records import Plan, RewriteSpec
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess

MOST_BYTES = 128 * 2**20
"""Size limit of the model file, since each subset is written, optimised and read once."""


def needed(
    baseline: Measuring, models: ModelVariants, row: Sequence[RewriteSpec], everywhere: Plan, limit_s: float
) -> tuple[RewriteSpec, ...]:
    """Return the rewrites in `row` without the clean-up rewrites that do not change the optimised graph.

    Args:
        baseline: The baseline, with its model and interpreter.
        models: Creates the rewritten models.
        row: Exact rewrites, in the order in which they are applied.
        everywhere: Settings and rewrites that are part of every plan.
        limit_s: Time limit in seconds; the row is returned unchanged if it is too short.
    """
    row = tuple(row)
    spare = [spec for spec in row if rewrites.find(spec.name).stage == rewrites.CLEAN_UP]
    # An execution provider may compile its part of the graph, which is then in no file.
    if limit_s <= 0 or not spare or everywhere.providers or baseline.side.model.info.size_bytes > MOST_BYTES:
        return row
    ends = monotonic.now_s() + limit_s
    without = [tuple(spec for spec in row if spec is not left_out) for left_out in spare]
    bare = tuple(spec for spec in row if spec not in spare)
    tries = [row, *without, *([bare] if len(spare) > 1 else [])]
    try:
        digests = _digests(baseline, models, tries, everywhere, ends)
    except (OrtuneError, TimeoutError, ValueError, OSError):
        # A row that is longer than it must be is no fault that would be worth an error.
        return row
    same = [i for i, digest in enumerate(digests) if i and digest == digests[0]]
    if not same:
        return row
    # Either of two rewrites with the same effect can be left out, but not both: after one, the rest is tried again.
    # The last try leaves out the most.
    shorter = tries[same[-1]]
    return needed(baseline, models, shorter, everywhere, ends - monotonic.now_s())


def _digests(
    baseline: Measuring,
    models: ModelVariants,
    tries: Sequence[Sequence[RewriteSpec]],
    everywhere: Plan,
    ends: float,
) -> list[str]:
    """Return the digest of the optimised graph for each set of rewrites in `tries`."""
    pace, files = Pace(lambda: ends - monotonic.now_s()), []
    for specs in tries:
        if not pace.begins("a rewritten model"):
            raise TimeoutError
        files.append(str(models.path(Plan(rewrites=(*everywhere.rewrites, *specs)), pace.left_s)))
    # The tool loads all of them: no less than a trial's start.
    if pace.left_s < 1e-9 * baseline.pilot.start_ns:
        raise TimeoutError
    tool = ToolProcess(
        runtime=baseline.side.runtime,
        folder=baseline.scratch,
        plan=Plan(settings=everywhere.settings),
        custom_ops=tuple(baseline.options.custom_ops),
        limits=Limits(load_s=max(1.0, pace.left_s)),
    )
    with tempfile.TemporaryDirectory(dir=baseline.scratch) as name:
        place = Path(name)
        tool("graphs", Path(files[0]), place, {"models": json.dumps(files)})
        return [model_fingerprint(ir.load(place / f"{i}.onnx")) for i in range(len(files))]
