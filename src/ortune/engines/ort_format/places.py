"""Places where a file in ORT format can run, and the optimisations that fit each place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import COREML, CPU, NNAPI, QNN, WEB_WASM, WEB_WEBGPU, XNNPACK, of_target
from ortune.errors import UsageError

Platform = Literal["any", "arm", "amd64"]
LEVELS = ("basic", "extended", "all")
STYLES = ("fixed", "runtime")
NEEDED = ("operators", "types")


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlace:
    """A place where a file can run.

    Attributes:
        name: Value of ``--for``.
        target: Target of its provider; "cpu" for ONNX Runtime's own kernels.
        platform: The converter's name of the processor.
    """

    name: str
    target: str
    platform: Platform

    @property
    def provider(self) -> Provider:
        """Execution provider of the place's target."""
        return of_target(self.target)

    @property
    def takes_fusions(self) -> bool:
        """Whether operators that the optimiser fuses for the CPU run at this place as they do on the CPU."""
        return self.provider.cpu_kernels


_PLACES = (
    DevicePlace(name="cpu-arm64", target=CPU.target, platform="arm"),
    DevicePlace(name="cpu-amd64", target=CPU.target, platform="amd64"),
    DevicePlace(name=NNAPI.target, target=NNAPI.target, platform="arm"),
    DevicePlace(name=COREML.target, target=COREML.target, platform="arm"),
    DevicePlace(name=XNNPACK.target, target=XNNPACK.target, platform="arm"),
    DevicePlace(name=QNN.target, target=QNN.target, platform="arm"),
    DevicePlace(name=WEB_WEBGPU.target, target=WEB_WEBGPU.target, platform="any"),
    DevicePlace(name=WEB_WASM.target, target=WEB_WASM.target, platform="any"),
)
PLACES = {place.name: place for place in _PLACES}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChoice:
    """Level, style and place of a file.

    Attributes:
        place: Place where the file runs.
        level: ``basic``, ``extended`` or ``all``.
        style: ``fixed``, or ``runtime``: possible CPU fusions are stored, and applied when the file is loaded.
        platform: The processor, as ONNX Runtime's converter names it.
        needed: Requirements list of a reduced build: "" for none, ``operators``, or ``types`` with their types.
        against: Reason that a forced choice is wrong for the place; "" if it is right.
    """

    place: DevicePlace
    level: str
    style: str
    platform: Platform
    needed: str = ""
    against: str = ""


def find(name: str) -> DevicePlace:
    """Return the place with a name.

    Raises:
        UsageError: No place has this name.
    """
    if name not in PLACES:
        raise UsageError(f"{name!r} is not a known place", where="--for", do=f"one of {', '.join(PLACES)}")
    return PLACES[name]


def choose(
    place: DevicePlace,
    *,
    level: str = "",
    style: str = "",
    needed: str = "",
    aware: bool = False,
    force: bool = False,
) -> FileChoice:
    """Return the choice that fits a place, except for values that options set.

    Args:
        place: Place where the file runs.
        level: ``--level``; "" for the level that fits.
        style: ``--style``; "" for the style that fits.
        needed: Requirements list of a reduced build.
        aware: Whether nodes that the provider supports stay plain; the level then applies to all other nodes.
        force: Whether a wrong combination is accepted; the reason is stored in ``against``.

    Raises:
        UsageError: A value is unknown, or the combination is wrong for the place.
    """
    for option, text, words in (
        ("--level", level, LEVELS),
        ("--style", style, STYLES),
        ("--needed", needed, NEEDED),
    ):
        if text and text not in words:
            raise UsageError(
                f"{text!r} is not a value of {option}", where=option, do=f"allowed: {', '.join(words)}"
            )
    later = style == "runtime" and place.provider.standard_operators
    choice = FileChoice(
        place=place,
        level=level or ("extended" if aware else "all" if place.takes_fusions or later else "basic"),
        style=style or "fixed",
        platform=place.platform,
        needed=needed,
    )
    if aware:
        _require_aware(choice)
        return choice
    why = _wrong(choice)
    if why and not force:
        raise UsageError(
            f"level {choice.level}, style {choice.style} does not fit {place.name}: {why}",
            where="--level" if level else "--style",
            do="use --level basic, or --style runtime to fuse the CPU's nodes too; --force converts anyway",
        )
    return replace(choice, against=why)


def _require_aware(choice: FileChoice) -> None:
    if choice.place.takes_fusions:
        do = "omit --aware: level all optimises every node"
        raise UsageError(f"{choice.place.name} has no provider to keep nodes for", where="--aware", do=do)
    if not choice.place.provider.standard_operators:
        what = f"an .ort gets no copies between GPU and CPU, so a file with nodes on both fails on {choice.place.name}"
        do = "ship the .onnx: ONNX Runtime fuses the nodes that stay on the CPU when it loads the file"
        raise UsageError(what, where="--aware", do=do)
    if choice.level == "basic" or choice.style == "runtime":
        what = "in a provider-aware file, all other nodes are fused already"
        raise UsageError(what, where="--aware", do="use --level extended or all, and --style fixed")


def _wrong(choice: FileChoice) -> str:
    """Return the reason that a choice is wrong for its place; "" if it is right."""
    place = choice.place
    if choice.level == "basic" or place.takes_fusions:
        return ""
    if choice.style == "runtime":
        if place.provider.standard_operators:
            return ""
        return f"optimisations stored for load time fit the CPU's kernels, and {place.name} runs on the GPU"
    if place.provider.standard_operators:
        return (
            f"it replaces ONNX operators with onnxruntime's own, such as FusedConv, which {place.name} does not know: "
            "they stay on the CPU and split the graph"
        )
    return (
        f"it makes operators for the CPU's kernels, such as FusedConv; session creation fails on {place.name}"
    )
