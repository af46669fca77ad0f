"""What rounding can make of outputs: inputs and weights one step away, and which difference that explains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import onnx_ir as ir

from ortune.graph.grids import Grid
from ortune.graph.model.graphs import nodes, op_set
from ortune.graph.randomness import SIZES
from ortune.inputs import feed_files
from ortune.outputs.figures import accepting
from ortune.outputs.files import Array
from ortune.outputs.ways import DEFAULT_LIMITS, slice_limit
from ortune.records import FeedRef, OutputDifference, OutputError

FORGIVEN = 3.0
"""Times what rounding alone moves the outputs: orders of sums differ among themselves too."""
OPTIMISED, OPTIMISED_ELEMENT = 1.5, 2.0
"""Times what the optimiser changes where it is right, of all elements and of one. Two ways that are equally far from
the reference are the root of two as far from one another, and in one element at most twice. With more, a wrong scale
would be excused by a smaller change of the optimiser."""
DOUBTED = 0.1
"""Of the limit for "the same": beyond it, the model itself must move as much, or nearly so."""
NEARLY = 0.1
STEPPED = 0.04
"""Of the elements of an input that is quantized first of all, which are moved by a step of its grid. Two right ways of
computing a quantized model round as many values inside to the neighbour, and that grows on its way."""
FAR, FAR_OF_FEW_BITS = 10.0, 3.0
"""Times as far as one step of rounding moves the outputs: beyond it something else was computed. Every sum on the way
is rounded too; a step of few bits is as much as the rounding of all values of a model that few bits hold."""
BY_VALUE = 0.1
"""Relative L2 beyond which outputs are others where nothing could tell how far rounding moves them."""
OF_FEW_BITS = op_set(
    "ConvInteger DequantizeLinear DynamicQuantizeLinear DynamicQuantizeMatMul MatMulInteger MatMulIntegerToFloat "
    "MatMulNBits QAttention QGemm QLinearConv QLinearMatMul QuantizeLinear"
)
"""Operators of models whose values, or weights, few bits hold: these round far more coarsely than their types."""
STEP_OF_FEW_BITS = 2.0**-8
SMALL_WEIGHT = 1 << 16
"""Elements of a weight that is moved by one step to see how rounding grows; large ones would be copied again."""


def one_step(array: Array, draw: np.random.Generator, step: float = 0.0) -> Array:
    """Return every finite number moved, up or down: to a neighbour in its type, or by up to that share of itself."""
    if step:
        return (array * (1 + step * draw.uniform(-1, 1, array.shape))).astype(array.dtype)
    towards = np.where(draw.random(array.shape) < 0.5, -np.inf, np.inf).astype(array.dtype)
    with np.errstate(over="ignore"):
        return np.where(np.isfinite(array), np.nextafter(array, towards), array)


def moved_feed(
    ref: FeedRef, folder: Path, seed: int, grids: Mapping[str, Grid] | None = None, step: float = 0.0
) -> FeedRef:
    """Return the feed with its floating-point inputs one step away; integers stay.

    Args:
        ref: The feed.
        folder: Where the other one is written.
        seed: Of up or down.
        grids: Of inputs that are quantized first of all: some elements move by a step of theirs.
        step: A share of the largest element by which all move instead, at most.
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


def _one_grid_step(array: Array, scale: float, draw: np.random.Generator) -> Array:
    """Return a few elements moved by a step of the grid, one at least."""
    if not array.size:
        return array
    flat = array.reshape(-1).copy()
    at = draw.choice(flat.size, max(1, int(STEPPED * flat.size)), replace=False)
    flat[at] += np.where(draw.random(at.size) < 0.5, -scale, scale).astype(array.dtype)
    return flat.reshape(array.shape)


def _by_share(array: Array, draw: np.random.Generator, step: float) -> Array:
    """Return every number moved by up to that share of the largest finite one."""
    finite = array[np.isfinite(array)]
    most = step * float(np.abs(finite).max()) if finite.size else 0.0
    return (array + most * draw.uniform(-1, 1, array.shape)).astype(array.dtype)


def nudged(model: ir.Model, seed: int, step: float = 0.0) -> ir.Model | None:
    """Return a copy whose small weights are one step away, but for those that decide shapes; None if none can be."""
    draw = np.random.default_rng(seed)
    copy, moved = model.clone(), False
    # A size that moves gives outputs of another shape, which tell nothing of rounding.
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
    """Return the values that sizes are computed from."""
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
        # The shape of a tensor is the same whatever its values are.
        if producer is not None and producer.op_type not in ("Shape", "Size"):
            rest += producer.inputs
    return values


def far_beyond(difference: OutputDifference, moved: OutputDifference | None, *, few_bits: bool) -> bool:
    """Return whether outputs that are not the same differ by more than rounding makes of them.

    Args:
        difference: Against a reference.
        moved: The reference with inputs and weights one step away against itself; None if that is not known.
        few_bits: That step was one of few bits.
    """
    if difference.empty or (difference.nonfinite_reference and not difference.nonfinite_candidate):
        return False  # nothing, and an overflow of the reference, is no answer to hold another against
    if difference.compared_as == "moments":
        # Moments are those of the numbers that were drawn; NaN where the reference has none is no matter of them.
        return difference.nonfinite_candidate > 0 and not difference.nonfinite_reference
    dead = any(output.dead_slices for output in difference.outputs)
    if moved is None:
        # Labels and rows that rounding may turn over prove nothing then.
        return not difference.comparable or difference.relative_l2 >= BY_VALUE
    if difference.accepting_tolerance is None and not dead:
        # Another label, row or shape, or NaN: no matter of a distance. What rounding alone turns over is none of it.
        return moved.ok or moved.accepting_tolerance is not None
    # A dead slice is excused only where rounding alone kills one too.
    if dead and not few_bits:
        return not any(output.dead_slices for output in moved.outputs)
    times = FAR_OF_FEW_BITS if few_bits else FAR
    # An output of another shape with weights moved is none of these.
    far = {output.name: times * output.relative_l2 for output in moved.outputs}
    # By the whole of an output: a single element may be turned over by a step that none of those moved just then.
    return any(
        output.relative_l2 > max(output.limit, far.get(output.name, BY_VALUE))
        for output in difference.outputs
        if not _steps_explain(output)
    )


def doubtful(difference: OutputDifference) -> bool:
    """Return whether outputs pass as the same, and by so little that the model itself is to be asked."""
    return difference.ok and any(
        output.relative_l2 > DOUBTED * output.limit and not _steps_explain(output)
        for output in difference.outputs
    )


def _steps_explain(output: OutputError) -> bool:
    """Return whether the output is on a quantization grid and no further away than rounding to it explains."""
    return output.steps is not None and output.steps.same


def _within(output: OutputError) -> bool:
    """Return whether an output is the same by the usual limits."""
    whole = output.relative_l2 <= output.limit and output.max_error <= max(output.limit, DEFAULT_LIMITS[1])
    return whole and _of_slice(output) <= slice_limit(output.limit, None)


def _of_whole(output: OutputError) -> float:
    return output.relative_l2


def _of_element(output: OutputError) -> float:
    return output.max_error


def _of_slice(output: OutputError) -> float:
    return output.worst_slice.relative_l2 if output.worst_slice is not None else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """By how much the outputs of a model differ though they are right.

    Attributes:
        moved: The reference with inputs and weights one step away; None if that is not known.
        optimised: What the optimiser makes of the reference; None if that is wrong, or not known.
    """

    moved: OutputDifference | None = None
    optimised: OutputDifference | None = None

    @property
    def moves(self) -> float:
        """Relative L2 by which rounding alone moves the outputs."""
        return max((d.relative_l2 for _, d in self._excuses()), default=0.0)

    def moves_of(self, name: str) -> float:
        """Return the same of one output."""
        return max(
            (o.relative_l2 for _, d in self._excuses() for o in d.outputs if o.name == name), default=0.0
        )

    @property
    def accepted(self) -> float:
        """Relative L2 up to which outputs are the same."""
        return max((times * d.relative_l2 for times, d in self._excuses()), default=0.0)

    def most(self, name: str, figure: Callable[[OutputError], float], optimised: float = OPTIMISED) -> float:
        """Return the most that a figure of an output may be.

        Args:
            name: Of the output.
            figure: Reads it.
            optimised: Times what the optimiser changes.
        """
        excuses = self._excuses(optimised)
        return max(
            (times * figure(o) for times, d in excuses for o in d.outputs if o.name == name), default=0.0
        )

    def _excuses(self, optimised: float = OPTIMISED) -> list[tuple[float, OutputDifference]]:
        """Return what differs though it is right, and how many times as far others may be."""
        both = ((FORGIVEN, self.moved), (optimised, self.optimised))
        return [(times, d) for times, d in both if d is not None]


def forgiven(difference: OutputDifference, own: Own) -> OutputDifference:
    """Calls outputs the same where the model itself moves as much when it is merely rounded otherwise."""
    for output in difference.outputs:
        if _steps_explain(output) or _within(output):
            continue
        # Each for itself: that another output of the model is sensitive excuses nothing in this one.
        if output.relative_l2 > own.most(output.name, _of_whole):
            return difference
        if output.max_error > own.most(output.name, _of_element, OPTIMISED_ELEMENT):
            return difference
        if _of_slice(output) > max(slice_limit(output.limit, None), own.most(output.name, _of_slice)):
            return difference
    return msgspec.structs.replace(difference, ok=True, what="", accepting_tolerance=None)


def tightened(difference: OutputDifference, own: Own) -> OutputDifference:
    """Calls outputs different where the model itself moves by far less: what passes is more than rounding."""
    if not own.moves:
        return difference  # nothing is known of its rounding
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
                accepting_tolerance=accepting(difference.relative_l2, difference.max_error),
            )
    return difference
