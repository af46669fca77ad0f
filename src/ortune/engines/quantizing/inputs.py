"""Inputs for the calibration of quantized models, and inputs for measuring their error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ortune.errors import InputError
from ortune.inputs import calibrating, feed_files, user_feeds, workload
from ortune.inputs.feed_files import Array
from ortune.inputs.feeds import FeedValue
from ortune.measuring.measuring import Measuring
from ortune.records import ENOUGH_INPUTS, Calibration, FeedRef, messages

_Labelled = tuple[dict[str, FeedValue], Array | None]
"""A set of inputs, and its label or None."""
INVENTED = 8  # sets of generated inputs to calibrate on, if the user gave none
INVENTED_CHECKED = 4  # further generated sets, to measure the error
HELD_OUT = 4  # one in so many of the user's sets is kept to measure the error
LONG_CHECK_S = 3.0  # maximum seconds of runs with ENOUGH_INPUTS; if slower, fewer inputs rank models
MOST_CHECKED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationInputs:
    """Inputs for the calibration of quantized models, and inputs for measuring their error.

    Attributes:
        held_out: Inputs for the error, as many as a final result needs, and not calibrated on if there are enough.
        checking: All of ``held_out``, or if runs are slow, a subset that suffices to rank models.
    """

    calibrating: tuple[FeedRef, ...]
    held_out: tuple[FeedRef, ...]
    checking: tuple[FeedRef, ...]
    summary: Calibration


def write_inputs(baseline: Measuring) -> QuantizationInputs:
    """Write the inputs for calibration and error measurement: the user's inputs, or generated ones if there are none.

    Raises:
        InputError: The user's inputs cannot be read, do not fit the model, or contain no set of finite numbers.
    """
    data, work, model = baseline.options.data, baseline.work, baseline.side.model.ir
    labelled = 0
    if data is not None or work.inputs_path:
        source = data or Path(work.inputs_path)
        refs = []
        option = "--data" if data else "--inputs"
        read = user_feeds.labelled(source, model, option, work.image)
        sets = _usable(baseline, read, f"{option} {source}")
        for i, (values, label) in enumerate(sets):
            refs.append(_written(baseline, f"data-{i}", values))
            if label is not None:
                labelled += 1
                feed_files.write_label(Path(refs[-1].path), label)
        # Every fourth, not the last quarter, since files are often ordered by class or by date.
        checking = refs[::HELD_OUT] if len(refs) >= HELD_OUT else refs
        taught = [r for r in refs if r not in checking] or refs
    else:
        source = None
        refs = []
        for seed in range(INVENTED + INVENTED_CHECKED):
            feeds = workload.feeds(model, msgspec.structs.replace(work, seed=work.seed + seed))
            _, values = feeds[seed % len(feeds)]
            refs.append(_written(baseline, f"invented-{seed}", values))
        taught, checking = refs[:INVENTED], refs[INVENTED:]
    enough_s = ENOUGH_INPUTS * baseline.pilot.input_ns / 1e9
    held_out = _spread(checking, ENOUGH_INPUTS)
    checking = held_out if enough_s <= LONG_CHECK_S else _spread(held_out, MOST_CHECKED)
    calibration = Calibration(
        inputs=len(taught),
        checked=len(checking),
        source="" if source is None else str(source),
        labelled=labelled,
    )
    return QuantizationInputs(
        calibrating=tuple(taught),
        held_out=tuple(held_out),
        checking=tuple(checking),
        summary=calibration,
    )


def _usable(baseline: Measuring, sets: Sequence[_Labelled], where: str) -> list[_Labelled]:
    """Return the sets of inputs that are usable for calibration, and add a note about the other sets."""
    hidden = calibrating.masks(baseline.side.model.ir)
    faults = [calibrating.fault(values, hidden) for values, _ in sets]
    first = next(((i, why) for i, why in enumerate(faults) if why), None)
    if first is None:
        return list(sets)
    what = f"{first[1]}{f' in set {first[0] + 1}' if len(sets) > 1 else ''}"
    if all(faults):
        raise InputError(
            f"no set of inputs can be used for calibration: {what}",
            where=where,
            do="pass inputs with rows of finite values",
        )
    n = sum(map(bool, faults))
    baseline.note(messages.SkippedInputs(n_skipped=n, n_sets=len(sets), first=what))
    return [entry for entry, why in zip(sets, faults, strict=True) if not why]


def _spread(refs: list[FeedRef], most: int) -> list[FeedRef]:
    """Return at most ``most`` inputs, evenly spaced, since the first of sorted files may all be of one class."""
    return refs if len(refs) <= most else [refs[i * len(refs) // most] for i in range(most)]


def _written(baseline: Measuring, name: str, values: dict[str, FeedValue]) -> FeedRef:
    place = baseline.scratch / "calibration" / name
    feed_files.write_feeds(place, values)
    return FeedRef(name=name, path=str(place))
