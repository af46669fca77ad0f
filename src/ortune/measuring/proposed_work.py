"""Determines the workload of a side: saved in a file or a bundle, or proposed from its model and the options."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ortune import files
from ortune.bundle.shared import WORKLOAD
from ortune.inputs import images, input_folders, recorded, recording_file, user_feeds, workload
from ortune.inputs.declared import inspect_inputs
from ortune.measuring.input_options import InputOptions
from ortune.measuring.sides import ResolvedSide
from ortune.records import Workload

SIZES_OF_DATA = "sizes are those of the median-sized input in --data"


def proposed_work(side: ResolvedSide, o: InputOptions) -> Workload:
    """Return the workload of a side; nothing is run.

    Args:
        side: The side.
        o: The options for its inputs.
    """
    saved = _of_file(side, o.workload, o) if o.workload else _of_bundle(side, o)
    if saved is not None:
        usual = InputOptions()
        # A saved workload keeps its own load, except for options that the user changed from the default.
        return msgspec.structs.replace(
            saved,
            gap_ns=saved.gap_ns if o.gap_ns == usual.gap_ns else o.gap_ns,
            sessions=saved.sessions if o.sessions == usual.sessions else o.sessions,
            callers=saved.callers if o.callers == usual.callers else o.callers,
            seed=saved.seed if o.seed == usual.seed else o.seed,
        )
    of_data = _shapes_of_data(side, o)
    proposed = workload.propose(
        side.model.ir,
        shapes=o.shapes,
        dims=o.dims,
        kept=of_data or o.kept,
        inputs_path=o.inputs,
        image=o.image,
        seed=o.seed,
        gap_ns=o.gap_ns,
        custom_ops=tuple(o.custom_ops),
    )
    folders = ((o.inputs, input_folders.MEASURED), (o.data, images.MOST))
    of_images = (images.describe(folder, side.model.ir, o.image, most) for folder, most in folders if folder)
    some = input_folders.left_out(o.inputs) if o.inputs else ""
    notes = (*proposed.notes, *([SIZES_OF_DATA] if of_data else []), *filter(None, (*of_images, some)))
    return msgspec.structs.replace(proposed, sessions=o.sessions, callers=o.callers, notes=notes)


def _of_file(side: ResolvedSide, path: Path, o: InputOptions) -> Workload:
    """Return the workload in a file: a saved workload, or this model's part of a recording."""
    file, number = recording_file.split(path)
    try:
        recording = recording_file.read(file)
    except OSError:
        recording = None  # an error in the file is reported when it is loaded
    if recording is None:
        return workload.load(file if number is not None else path, o.custom_ops)
    return recorded.of_model(recording, side.model, number, where=str(path), seed=o.seed)


def _of_bundle(side: ResolvedSide, o: InputOptions) -> Workload | None:
    """Return the workload of a side's bundle; None without a bundle, if an option sets inputs, or if it is unfit."""
    bundle = side.bundle
    if bundle is None or o.inputs is not None or o.shapes or o.dims or o.kept or o.data is not None:
        return None
    path = bundle / WORKLOAD
    if not files.is_file(path):
        return None
    saved = workload.load(path, o.custom_ops, inside=True)
    taken = {wanted.name for wanted in inspect_inputs(side.model.ir).inputs}
    fits = all({choice.name for choice in case.inputs} == taken for case in saved.cases)
    there = not saved.inputs_path or Path(saved.inputs_path).exists()
    return saved if saved.cases and fits and there else None


def _shapes_of_data(side: ResolvedSide, o: InputOptions) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the user's further inputs; {} if no size is dynamic, or if an option sets them."""
    model = side.model.ir
    if o.data is None or o.inputs is not None or o.shapes or o.dims or not inspect_inputs(model).kinds:
        return {}
    return user_feeds.middle_shapes(o.data, model, "--data", o.image)
