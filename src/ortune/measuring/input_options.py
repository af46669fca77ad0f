"""The options for inputs, which all measuring verbs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortune.outputs.tolerance import Tolerance
    from ortune.records import PodSize


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """Options for the inputs and the load of a model; names match the command-line options.

    Attributes:
        kept: Shapes of an earlier run, used if no option sets a shape and the model accepts them.
        sessions, callers: Number of sessions in one process, and of threads that call each session.
        pod: The emulated container; None to emulate none.
        in_turn: Whether guessed sizes vary from call to call, since an arena grows when sizes change.
        batch_too: Whether also a batch of 1 varies, if the user did not choose it.
        allow_nonfinite: Whether outputs may be NaN or infinite.
        image: Preprocessing of images, as in ``--image``; "" for the default.
        data: Further inputs of the user for calibrating quantized models and measuring their error.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dims: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    kept: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: Path | None = None
    image: str = ""
    workload: Path | None = None
    save_workload: Path | None = None
    gap_ns: int = 0
    sessions: int = 1
    callers: int = 1
    pod: PodSize | None = None
    custom_ops: Sequence[str] = ()
    seed: int = 0
    tolerance: Tolerance | None = None
    metric: str = ""
    data: Path | None = None
    allow_nonfinite: bool = False
    in_turn: bool = False
    batch_too: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The input options as command-line words of any verb, without the options for the load."""
        words = ["--inputs", str(self.inputs)] if self.inputs is not None else []
        words += ["--image", self.image] if self.image else []
        for name, shape in self.shapes.items():
            words += ["--shape", f"{name}:{'x'.join(map(str, shape))}"]
        for name, mix in self.dims.items():
            alike = len({weight for _, weight in mix}) == 1
            sizes = (str(size) if alike else f"{size}:{weight:.12g}" for size, weight in mix)
            words += ["--dim", f"{name}={','.join(sizes)}"]
        return (*words, *(word for library in self.custom_ops for word in ("--custom-ops", library)))
