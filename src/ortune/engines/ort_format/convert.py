"""Converts a model to ORT format for a given place, and compares the optimisation levels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ortune import rewrites
from ortune.engines.ort_format.aware import Takes, aware_model, basic_model
from ortune.engines.ort_format.places import FileChoice
from ortune.errors import ModelError
from ortune.graph.levels import LEVELS, compare_levels
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.model.save import save_model
from ortune.graph.ort_files import inspect
from ortune.records import AwareFile, LevelComparison, OrtConversion
from ortune.rewrites import Tool, stamp_model

CONFIG = ".config"
"""Suffix of the file that lists the needed operators, after the model's name."""
_INPUTS_ARE_CONSTANTS = 3
"""The newest IR version in which every initializer is also a graph input."""
LARGEST_BYTES = 1 << 31
"""Maximum size of a model in ORT format, in bytes: the limit of flatbuffer offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """The result of a conversion: the file and its record.

    Attributes:
        path: The file; None if a provider-aware file has no advantage.
        record: Record for documents; None if ``path`` is None.
        aware: Record of the nodes kept in a provider-aware file; None for other files.
    """

    path: Path | None
    record: OrtConversion | None
    aware: AwareFile | None = None


def convert(
    source: OpenModel,
    choice: FileChoice,
    folder: Path,
    tool: Tool,
    *,
    name: str,
    takes: Takes | None = None,
    levels: LevelComparison | None = None,
) -> Converted:
    """Write a model in ORT format.

    Args:
        source: An .onnx model.
        choice: Level, style and place of the file.
        folder: Folder of the file; other files in it are kept.
        tool: Callback for operations that need ONNX Runtime.
        name: Name of the file, without its extension.
        takes: Selects the nodes that the place's provider supports, for a provider-aware file; None for other files.
        levels: Comparison of the levels; None to make it.

    Raises:
        ModelError: The model is in ORT format, or too large for it.
        OrtuneError: ONNX Runtime cannot load the model, or cannot write the file.
    """
    require_convertible(source)
    source = _without_constant_inputs(source, folder)
    params = {"style": choice.style, "platform": choice.platform, "needed": choice.needed}
    target, aware = folder / f"{name}.ort", None
    if takes is None:
        # The converter preserves metadata, so the mark is added to its input.
        model, level, before = source.ir.clone(), choice.level, folder / "before.onnx"
        stamp_model(model, "ort-format")
    else:
        basic = basic_model(source, folder, tool, choice.platform)
        whole, aware = aware_model(
            basic, choice.place.target, takes, folder, tool, level=choice.level, platform=choice.platform
        )
        if whole is None:
            return Converted(path=None, record=None, aware=aware)
        # Already optimised where that is allowed; another pass would fuse the kept nodes.
        model, level, before = whole, "disable", folder / "before.onnx"
    save_model(model, before)
    tool("ort-format", before, target, {**params, "level": level})
    written = inspect(open_model(target))
    assert written is not None
    needed = target.with_name(target.name + CONFIG)
    record = OrtConversion(
        place=choice.place.name,
        level=choice.level,
        style=choice.style,
        platform=choice.platform,
        against=choice.against,
        file=written,
        levels=levels or levels_of(source, folder, tool, choice.platform),
        aware=aware,
        needed_path=str(needed) if choice.needed and needed.exists() else "",
        needed=_lines(needed) if choice.needed and needed.exists() else (),
    )
    return Converted(path=target, record=record, aware=aware)


def require_convertible(source: OpenModel) -> None:
    """Check that ORT format can represent the model, before any work is done.

    Raises:
        ModelError: The model is in ORT format, or too large for it.
    """
    if source.in_ort_format:
        raise ModelError(
            "The model is in ORT format already, and its graph cannot be changed.",
            where=str(source.path),
            do="Convert the .onnx that it was converted from.",
        )
    size = source.facts.size_bytes + source.facts.external_bytes
    if size >= LARGEST_BYTES:
        raise ModelError(
            f"The model is {size / 1e9:.1f} GB, and ORT format holds less than 2.1 GB.",
            where=str(source.path),
            do="Ship the .onnx with its external data, or make its weights smaller: ortune rewrite MODEL lists how.",
            code="too-large",
        )


def _without_constant_inputs(source: OpenModel, folder: Path) -> OpenModel:
    """Return the model without the inputs that IR version 3 lists for each initializer.

    ONNX Runtime treats these inputs as constants. In ORT format, such an input would have to be fed if its initializer
    was folded.
    """
    if source.ir.ir_version > _INPUTS_ARE_CONSTANTS:
        return source
    copy = source.ir.clone()
    if not rewrites.find("initializers-out-of-inputs").apply(copy, {}).modified:
        return source
    path = folder / "without-inputs.onnx"
    save_model(copy, path)
    return open_model(path)


def levels_of(source: OpenModel, folder: Path, tool: Tool, platform: str) -> LevelComparison:
    """Return the comparison of a model's graphs at all optimisation levels.

    Args:
        source: An .onnx model.
        folder: Folder for the saved graphs.
        tool: Callback for operations that need ONNX Runtime.
        platform: ``any``, ``arm`` or ``amd64``.

    Raises:
        OrtuneError: ONNX Runtime does not load the model.
    """
    graphs = folder / "levels"
    graphs.mkdir(exist_ok=True)
    tool("levels", source.path, graphs, {"levels": ",".join(LEVELS.values()), "platform": platform})
    saved = {
        level: open_model(graphs / f"{name}.onnx").ir for level, name in LEVELS.items() if level != "none"
    }
    try:
        saved["none"] = open_model(graphs / f"{LEVELS['none']}.onnx").ir
    except ModelError:
        # If ONNX Runtime inlines a branch, a name may occur twice; without optimisation the graph is the source.
        saved["none"] = source.ir
    return compare_levels(source.ir, {level: saved[level] for level in LEVELS})


def _lines(path: Path) -> tuple[str, ...]:
    """Return the lines of a list of needed operators, without comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line.strip() and not line.startswith("#"))
