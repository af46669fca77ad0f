"""Effect of rounding on outputs: inputs and weights moved by one rounding step, and differences explained by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import onnx_ir as ir

from ortune.graph.grids import Grid
from ortune.graph.model.graphs import nodes, op_set
from ortune.graph.randomness import SIZES
from ortune.inputs import feed_files
from ortune.outputs.figures import smallest_accepting
from ortune.outputs.files import Array, tensors
from ortune.outputs.ways import DEFAULT_LIMITS, slice_limit
from ortune.records import FeedRef, OutputDifference, OutputError

FORGIVEN = 3.0
"""Accepted multiple of the measured effect of rounding, since the order of summation may differ too."""
OPTIMISED, OPTIMISED_ELEMENT = 1.5, 2.0
"""Accepted multiples of the optimizer's (correct) change of the outputs, for all elements and for one element. Two
results equally far from the reference are sqrt(2) times as far apart, and in one element at most twice. Larger factors
would let a smaller change by the optimizer excuse a wrong scale.
"""
DOUBTED = 0.1
"""Fraction of the limit for equality; larger differences are compared with the effect of rounding alone."""
NEARLY = 0.1
STEPPED = 0.04
"""Fraction of the elements of a directly quantized input that are moved by a grid step. Two correct computations of a
quantized model round about as many internal values differently, and the effect grows along the graph.
"""
FAR, FAR_OF_FEW_BITS = 10.0, 3.0
"""Multiples of the effect of one rounding step above which the computation itself differs. Intermediate sums are also
rounded; a rounding step of few bits is as large as the rounding of all values of a quantized model.
"""
BY_VALUE = 0.1
"""Relative L2 distance above which outputs differ if the effect of rounding is unknown."""
ENOUGH_NUMBERS, MOST_DRAWS = 32, 8
"""Size of the smallest output below which inputs are moved several times, and the maximum number of times."""
OF_FEW_BITS = op_set(
    "ConvInteger DequantizeLinear DynamicQuantizeLinear DynamicQuantizeMatMul MatMulInteger MatMulIntegerToFloat "
    "MatMulNBits QAttention QGemm QLinearConv QLinearMatMul QuantizeLinear"
)
"""Operators of quantized models, which round far more coarsely than their floating-point types."""
STEP_OF_FEW_BITS = 2.0**-8
SMALL_WEIGHT = 1 << 16
"""Maximum number of elements of a weight that is moved to measure the effect of rounding, since it is copied."""


def one_step(array: Array, draw: np.random.Generator, step: float = 0.0) -> Array:
    """Return a copy with every finite number moved to a neighbour, or by up to the fraction ``step`` of itself."""
    if step:
        return (array * (1 + step * draw.uniform(-1, 1, array.shape))).astype(array.dtype)
    towards = np.where(draw.random(array.shape) < 0.5, -np.inf, np.inf).astype(array.dtype)
    with np.errstate(over="ignore"):
        return np.where(np.isfinite(array), np.nextafter(array, towards), array)


def n_draws(folders: Iterable[Path]) -> int:
    """Return how often to move the inputs: more often for small outputs, which may stay unchanged by chance."""
    sizes = [
        array.size for folder in folders for array in tensors(folder).values() if array.dtype.kind == "f"
    ]
    # An output of 32 numbers takes one draw, one of 10 takes 4, a single number the most.
    return max(1, min(MOST_DRAWS, -(-ENOUGH_NUMBERS // max(1, min(sizes, default=ENOUGH_NUMBERS)))))


def moved_feed(
    ref: FeedRef, folder: Path, seed: int, grids: Mapping[str, Grid] | None = None, step: float = 0.0
) -> FeedRef:
    """Write a copy of the feed with floating-point inputs moved by one rounding step; integers are unchanged.

    Args:
        ref: The feed.
        folder: Folder for the copy.
        seed: Seed of the random directions.
        grids: Grids of directly quantized inputs, by name; some elements of these inputs move by a grid step.
        step: If not 0, elements move by up to this fraction of the largest element instead.
    """
    draw = np.random.default_rng(seed)
    feeds = feed_files.read_feeds(Path(ref.path))
    for name, value in feeds.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            moved = _by_share(value, draw, step) if step else one_step(value, draw)
            feeds[name] = (
                _one_grid_step(moved, max(grids[name].scales), draw) if grids and name in grids else moved
            )
    feed_files.write_feeds(folder, feeds)
    return msgspec.structs.replace(ref, path=str(folder))


def moved_feeds(
    refs: Sequence[FeedRef], folder: Path, seed: int, grids: Mapping[str, Grid] | None, step: float
) -> list[FeedRef]:
    """Write copies of several feeds as ``moved_feed`` does, whose names differ from those of another seed."""
    feeds = []
    for i, ref in enumerate(refs):
        place = folder / f"moved-{i}-{seed}"
        moved = moved_feed(ref, place, seed, grids, step)
        feeds.append(msgspec.structs.replace(moved, name=place.name))
    return feeds


def _one_grid_step(array: Array, scale: float, draw: np.random.Generator) -> Array:
    """Return a copy of an array with a few elements, at least one, moved by a grid step."""
    if not array.size:
        return array
    flat = array.reshape(-1).copy()
    at = draw.choice(flat.size, max(1, int(STEPPED * flat.size)), replace=False)
    flat[at] += np.where(draw.random(at.size) < 0.5, -scale, scale).astype(array.dtype)
    return flat.reshape(array.shape)


def _by_share(array: Array, draw: np.random.Generator, step: float) -> Array:
    """Return a copy with every number moved by up to the fraction ``step`` of the largest finite number."""
    finite = array[np.isfinite(array)]
    most = step * float(np.abs(finite).max()) if finite.size else 0.0
    return (array + most * draw.uniform(-1, 1, array.shape)).astype(array.dtype)


def nudged(model: ir.Model, seed: int, step: float = 0.0) -> ir.Model | None:
    """Return a copy of the model with small weights moved by one step, except in shapes; None without any."""
    draw = np.random.default_rng(seed)
    copy, moved = model.clone(), False
    # Sizes must not move: outputs of another shape give no information about rounding.
    shaping = _shaping(copy)
    for value in copy.graph.initializers.values():
        tensor = value.const_value
        if tensor is None or tensor.size > SMALL_WEIGHT or value in shaping:
            continue
        if tensor.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE):
            value.const_value = ir.Tensor(one_step(tensor.numpy(), draw, step), name=tensor.name)
            moved = True
    return copy if moved else None


def _shaping(model: ir.Model) -> set[ir.Value]:
    """Return the values from which sizes are computed."""
    values: set[ir.Value] = set()
    rest = [
        node.inputs[i] for node in nodes(model) for i in SIZES.get(node.op_type, ()) if i < len(node.inputs)
    ]
    while rest:
        value = rest.pop()
        if value is None or value in values:
            continue
        values.add(value)
        producer = value.producer()
        # The shape of a tensor does not depend on its values.
        if producer is not None and producer.op_type not in ("Shape", "Size"):
            rest += producer.inputs
    return values


def far_beyond(difference: OutputDifference, moved: OutputDifference | None, *, few_bits: bool) -> bool:
    """Return whether a difference is far larger than the effect of rounding.

    Args:
        difference: Difference from a reference.
        moved: Change of the reference by one rounding step of inputs and weights; None if unknown.
        few_bits: Whether that rounding step was one of few bits, as in a quantized model.
    """
    if difference.empty or (difference.nonfinite_reference and not difference.nonfinite_candidate):
        return False  # empty outputs, or an overflow of the reference, are no basis for a verdict
    if difference.compared_as in ("moments", "sizes"):
        # Moments depend on the random numbers; NaN that the reference lacks does not.
        return difference.nonfinite_candidate > 0 and not difference.nonfinite_reference
    dead = any(output.dead_slices for output in difference.outputs)
    if moved is None:
        # Labels and rows that rounding may flip prove nothing then.
        return not difference.comparable or difference.relative_l2 >= BY_VALUE
    if difference.accepting_tolerance is None and not dead:
        # Another label, row, shape or NaN has no distance. It counts unless rounding also causes such changes.
        return moved.ok or moved.accepting_tolerance is not None
    # A dead slice is excused only if rounding also causes one.
    if dead and not few_bits:
        return not any(output.dead_slices for output in moved.outputs)
    times = FAR_OF_FEW_BITS if few_bits else FAR
    # An output that changes its shape with the weights is not included.
    far = {output.name: times * output.relative_l2 for output in moved.outputs}
    # Judged by whole outputs: a step may flip a single element that the measured steps did not.
    return any(
        output.relative_l2 > max(output.limit, far.get(output.name, BY_VALUE))
        for output in difference.outputs
        if not _steps_explain(output)
    )


def doubtful(difference: OutputDifference) -> bool:
    """Return whether outputs are so close to a limit that the model's sensitivity to rounding should be measured."""
    return difference.ok and any(
        output.relative_l2 > DOUBTED * output.limit and not _steps_explain(output)
        for output in difference.outputs
    )


def _steps_explain(output: OutputError) -> bool:
    """Return whether an output is on a quantization grid and rounding to the grid explains its difference."""
    return output.steps is not None and output.steps.same


def _within(output: OutputError) -> bool:
    """Return whether the difference of an output is within the usual limits."""
    whole = output.relative_l2 <= output.limit and output.max_error <= max(output.limit, DEFAULT_LIMITS[1])
    return whole and _of_slice(output) <= slice_limit(output.limit, None)


def _of_whole(output: OutputError) -> float:
    return output.relative_l2


def _of_element(output: OutputError) -> float:
    return output.max_error


def _of_slice(output: OutputError) -> float:
    return output.worst_slice.relative_l2 if output.worst_slice is not None else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRounding:
    """Differences between outputs of one model that occur although all of the outputs are correct.

    Attributes:
        moved: Change of the reference outputs if inputs and weights move by one rounding step; None if unknown.
        optimised: Change of the reference outputs by ONNX Runtime's optimizer; None if wrong or unknown.
    """

    moved: OutputDifference | None = None
    optimised: OutputDifference | None = None

    @property
    def moves(self) -> float:
        """Largest relative L2 distance between correct outputs of the model."""
        return max((d.relative_l2 for _, d in self._excuses()), default=0.0)

    def moves_of(self, name: str) -> float:
        """Return the largest relative L2 distance between correct values of one output."""
        return max(
            (o.relative_l2 for _, d in self._excuses() for o in d.outputs if o.name == name), default=0.0
        )

    @property
    def accepted(self) -> float:
        """Largest relative L2 distance at which outputs count as equal."""
        return max((times * d.relative_l2 for times, d in self._excuses()), default=0.0)

    def most(self, name: str, figure: Callable[[OutputError], float], optimised: float = OPTIMISED) -> float:
        """Return the largest accepted value of a measure for one output.

        Args:
            name: Name of the output.
            figure: Returns the measure of an output's error.
            optimised: Factor on the optimizer's change.
        """
        excuses = self._excuses(optimised)
        return max(
            (times * figure(o) for times, d in excuses for o in d.outputs if o.name == name), default=0.0
        )

    def _excuses(self, optimised: float = OPTIMISED) -> list[tuple[float, OutputDifference]]:
        """Return (factor, difference) pairs: the accepted multiple of each known difference of correct outputs."""
        both = ((FORGIVEN, self.moved), (optimised, self.optimised))
        return [(times, d) for times, d in both if d is not None]


def forgiven(difference: OutputDifference, own: OwnRounding) -> OutputDifference:
    """Return the difference, marked as equal if known differences of correct outputs explain every output."""
    for output in difference.outputs:
        if _steps_explain(output) or _within(output):
            continue
        # Per output: the sensitivity of one output does not excuse another.
        if output.relative_l2 > own.most(output.name, _of_whole):
            return difference
        if output.max_error > own.most(output.name, _of_element, OPTIMISED_ELEMENT):
            return difference
        if _of_slice(output) > max(slice_limit(output.limit, None), own.most(output.name, _of_slice)):
            return difference
    return msgspec.structs.replace(difference, ok=True, what="", accepting_tolerance=None)


def tightened(difference: OutputDifference, own: OwnRounding) -> OutputDifference:
    """Return the difference, marked as unequal if it is far larger than the model's sensitivity to rounding."""
    if not own.moves:
        return difference  # the effect of rounding is unknown
    for output in difference.outputs:
        mine = own.moves_of(output.name)
        if _steps_explain(output):
            continue
        if output.relative_l2 > DOUBTED * output.limit and mine < NEARLY * output.relative_l2:
            what = (
                f"output {output.name!r} differs: relative L2 distance {output.relative_l2:.2g}, and rounding "
                "alone causes "
                f"{mine:.2g}"
            )
            return msgspec.structs.replace(
                difference,
                ok=False,
                what=what,
                accepting_tolerance=smallest_accepting(difference.relative_l2, difference.max_error),
            )
    return difference
