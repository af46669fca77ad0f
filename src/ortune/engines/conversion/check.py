"""Compares the outputs of an ONNX model with its source's, for several inputs and sizes, at two optimisation levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from ortune.engines.conversion import axes, faults
from ortune.engines.conversion.group_runs import CaseGroup, GroupRuns, MadeUp, SourceRefuses
from ortune.engines.conversion.opening import OpenedSource
from ortune.engines.conversion.pairing import NotPaired, pair_inputs
from ortune.measuring.input_options import InputOptions
from ortune.measuring.opening import Experiment
from ortune.measuring.sides import ResolvedSide
from ortune.records import (
    CheckedCase,
    ConversionFault,
    DynamicAxis,
    FeedRef,
)

INVENTED: tuple[MadeUp, ...] = (
    ("usual", 0, "usual"),
    ("other values", 1, "usual"),
    ("zeros", 0, "zeros"),
    ("largest", 0, "extreme"),
)
"""Generated inputs, used if the user provides none."""
ROWS = 16
"""First size of a generated input whose first size is unknown."""
MOST_SIZES = 2
"""Maximum number of other sizes that are tried for each dynamic axis."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Result of checking one model.

    Attributes:
        cases: The comparison for every set of inputs and both levels.
        axes: Every dynamic dimension.
        fault: The first fault; None if the model is correct.
        feed: The inputs that show the fault; None without a fault, or if it does not depend on inputs.
        notes: Notes on impossible checks.
    """

    cases: tuple[CheckedCase, ...] = ()
    axes: tuple[DynamicAxis, ...] = ()
    fault: ConversionFault | None = None
    feed: FeedRef | None = None
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no fault was found."""
        return self.fault is None


class ConversionCheck:
    """Compares ONNX models with one source.

    Args:
        opened: The experiment.
        source: The source, opened by its framework.
        folder: Folder for inputs, which the source's process may read.
        feeds: The user's input options.
    """

    def __init__(
        self,
        opened: Experiment,
        source: OpenedSource,
        folder: Path,
        feeds: InputOptions,
    ) -> None:
        self.source, self.feeds = source.told, feeds
        self.example = source.example
        self._runs = GroupRuns(opened, source.process, folder, feeds.tolerance)

    def check(self, side: ResolvedSide, inputs: Mapping[str, str], expected: axes.Axes) -> Checked:
        """Run a model and its source on the same inputs.

        Args:
            side: The model.
            inputs: Maps the source's inputs to the model's, as reported by the exporter; others are matched by name and
                order.
            expected: Axes of the source's inputs that must be dynamic.
        """
        self._runs.notes = []
        model = side.model.ir
        try:
            pairs = pair_inputs(model, self.source.inputs, inputs, self.example)
        except NotPaired as error:
            return Checked(fault=ConversionFault(kind="input-shape", what=str(error)))
        ours = {theirs: mine for mine, theirs in pairs.items()}
        wanted = {ours[name]: dict(places) for name, places in expected.items() if name in ours}
        base = self._base_shapes(side, pairs)
        cases: list[CheckedCase] = []
        for options, kinds in self._groups(base, pairs):
            group = self._runs.run(side, pairs, options, kinds)
            cases += group.cases
            if group.wrong is not None:
                return self._faulty(group, cases, ())
        none = faults.not_compared(cases, self._runs.notes)
        if none is not None:
            return Checked(cases=tuple(cases), fault=none, notes=tuple(self._runs.notes))
        dynamic, fault = self._axes(side, pairs, base, wanted, cases)
        if isinstance(fault, CaseGroup):
            return self._faulty(fault, cases, dynamic)
        return Checked(cases=tuple(cases), axes=dynamic, fault=fault, notes=tuple(self._runs.notes))

    def _faulty(
        self, group: CaseGroup, cases: Sequence[CheckedCase], dynamic: tuple[DynamicAxis, ...]
    ) -> Checked:
        case = group.wrong
        assert case is not None
        right = [checked.name for checked in cases if checked.outputs is not None and checked.outputs.ok]
        fault = faults.fault_of(
            case,
            group.source / case.name,
            group.model[case.level] / case.name if case.level in group.model else None,
            frozen=bool(dynamic),
            right=len(set(right)),
            of=len({checked.name for checked in cases}),
        )
        return Checked(
            cases=tuple(cases),
            axes=dynamic,
            fault=fault,
            feed=group.refs.get(case.name),
            notes=tuple(self._runs.notes),
        )

    def _base_shapes(self, side: ResolvedSide, pairs: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the model's inputs: the user's, or else those of the source."""
        theirs = {source.name: source for source in self.source.inputs}
        shapes = {}
        for mine, name in pairs.items():
            if name in self.example:
                shapes[mine] = tuple(self.example[name].shape)
            elif None not in theirs[name].shape:
                shapes[mine] = tuple(size for size in theirs[name].shape if size is not None)
            elif theirs[name].shape.count(None) == 1 and theirs[name].shape[0] is None:
                shapes[mine] = (ROWS, *(size for size in theirs[name].shape if size is not None))
        fixed = {
            str(value.name): value.shape for value in side.model.ir.graph.inputs if value.shape is not None
        }
        for name, shape in shapes.items():
            declared = fixed.get(name)
            if declared is not None and len(declared) == len(shape):
                # A size that the model fixes is reported as such; its outputs are checked at that size.
                shapes[name] = tuple(
                    d if isinstance(d, int) else n for d, n in zip(declared, shape, strict=True)
                )
        return shapes | {name: shape for name, shape in self.feeds.shapes.items() if name in pairs}

    def _groups(
        self, base: Mapping[str, tuple[int, ...]], pairs: Mapping[str, str]
    ) -> Iterator[tuple[InputOptions, tuple[MadeUp, ...]]]:
        """Yield the groups of inputs: the user's inputs, the source's example, and generated inputs."""
        for path in (self.feeds.inputs, self.feeds.data):
            if path is not None:
                yield (
                    replace(self.feeds, inputs=path, shapes={}, dims={}, data=None, allow_nonfinite=True),
                    (),
                )
        real = {mine: self.example[name] for mine, name in pairs.items() if name in self.example}
        if real and all(tuple(array.shape) == base[name] for name, array in real.items()):
            place = self._runs.folder() / "example.npz"
            np.savez(place, allow_pickle=False, **real)
            yield self._invented({}, inputs=place), (("example", 0, "usual"),)
        yield self._invented(base), INVENTED

    def _invented(self, shapes: Mapping[str, tuple[int, ...]], inputs: Path | None = None) -> InputOptions:
        return replace(
            self.feeds,
            inputs=inputs,
            data=None,
            shapes=shapes,
            dims={} if shapes or inputs else self.feeds.dims,
            allow_nonfinite=True,
        )

    def _axes(
        self,
        side: ResolvedSide,
        pairs: Mapping[str, str],
        base: Mapping[str, tuple[int, ...]],
        wanted: axes.Axes,
        cases: list[CheckedCase],
    ) -> tuple[tuple[DynamicAxis, ...], CaseGroup | ConversionFault | None]:
        """Check the dynamic dimensions at other sizes; return their records, and the first fault or None."""
        dynamic: list[DynamicAxis] = []
        fault: ConversionFault | None = None
        for name, where in axes.unexpectedly_fixed(side.model.ir, wanted).items():
            sizes = sorted({size for _, _, size in where})
            spots = tuple(f"{value} axis {axis}" for value, axis, _ in where)
            what = f"{name} is fixed at {', '.join(map(str, sizes))} in {', '.join(spots)}"
            dynamic.append(
                DynamicAxis(name=name, places=spots, status="fixed", sizes=tuple(sizes), what=what)
            )
            fault = fault or ConversionFault(kind="frozen-size", what=what)
        for name, places in axes.dynamic_dimensions(side.model.ir).items():
            axis, group = self._axis(side, pairs, base, name, places, cases)
            dynamic.append(axis)
            if group is not None:
                return tuple(dynamic), group
        return tuple(dynamic), fault

    def _axis(
        self,
        side: ResolvedSide,
        pairs: Mapping[str, str],
        base: Mapping[str, tuple[int, ...]],
        name: str,
        spots: Sequence[tuple[str, int]],
        cases: list[CheckedCase],
    ) -> tuple[DynamicAxis, CaseGroup | None]:
        """Check one dynamic dimension at other sizes; return its record, and a group of inputs with a fault or None."""
        places = tuple(f"{value} axis {axis}" for value, axis in spots)
        untested = DynamicAxis(name=name, places=places, status="untested")
        if any(value not in base for value, _ in spots):
            return untested, None
        sizes: list[int] = []
        for size in axes.other_sizes(base[spots[0][0]][spots[0][1]]):
            if len(sizes) == MOST_SIZES:
                break
            try:
                options = self._invented(axes.shapes_with_size(base, spots, size))
                group = self._runs.run(
                    side, pairs, options, ((f"{name}={size}", 0, "usual"),), sizes={name: size}
                )
            except SourceRefuses:
                continue
            sizes.append(size)
            cases += group.cases
            if group.wrong is not None:
                what = group.wrong.failed or (group.wrong.outputs.what if group.wrong.outputs else "")
                frozen = msgspec.structs.replace(
                    untested, status="frozen", sizes=tuple(sizes), what=f"at {name}={size}: {what}"
                )
                return frozen, group
        if not sizes:
            what = f"the source itself accepts no other size of {name}"
            return msgspec.structs.replace(untested, what=what), None
        return msgspec.structs.replace(untested, status="open", sizes=tuple(sizes)), None
