"""Writing an application's bundle, under a temporary name first, so a bundle is complete or absent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ortune.bundle import digests
from ortune.bundle.readme import README
from ortune.bundle.shared import INDEX
from ortune.bundle.write import copy_model, goal_of, move_to_goal, temporary_folder
from ortune.graph.model.open import open_model
from ortune.records import AppBundle


def write_app_bundle(
    bundle: AppBundle, workload: Path, directory: Path, *, models: Mapping[str, Path], text: str, force: bool
) -> Path:
    """Write ``NAME.ortune`` for a recording ``NAME.workload`` and return its folder.

    Args:
        bundle: Content of ``ortune.json``.
        workload: Path of the recording.
        directory: Folder for the bundle, which is created if needed.
        models: Replacement models, by their paths in the bundle.
        text: Text of the README.
        force: Whether to replace an existing bundle; otherwise the new one gets another name.

    Returns:
        The folder of the bundle.

    Raises:
        UsageError: The bundle cannot be written to ``directory``.
    """
    goal = goal_of(directory, workload)
    with temporary_folder(directory, goal) as work:
        index = msgspec.json.format(msgspec.json.encode(bundle), indent=2)
        (work / INDEX).write_bytes(index + b"\n")
        (work / README).write_text(text, encoding="utf-8")
        for place, model in models.items():
            copy_model(open_model(model), work / place, ours=True)
        digests.write(work)
        return move_to_goal(work, goal, force)
