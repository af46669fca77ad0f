"""The built-in metric of a session over all inputs, for each output and for the output's worst slice.

Outputs are compared with the labels of the data or, without labels, with the base's outputs for the same inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortune.errors import UsageError
from ortune.outputs.metrics import METRICS
from ortune.outputs.metrics.metric import Side, TaskCase
from ortune.records import TaskFigure


class MetricTask:
    """A metric over all inputs of a session; the expected results and the base's quality are computed once."""

    def __init__(self, name: str, cases: Sequence[TaskCase]) -> None:
        """Compute the expected results and the base's quality.

        Raises:
            UsageError: If the metric applies to no output.
        """
        metric = METRICS[name]
        self._of, self._count, self._cases = metric.of, metric.count, cases
        self._right = {
            output: [metric.right(case, output) for case in cases] for output in metric.names(cases[0])
        }
        self._base = self._by_output([case.base for case in cases])
        if not any(self._base.values()):
            do = "pass a function of your own: --metric MODULE:FUNCTION"
            raise UsageError(f"no output is of that kind: {metric.takes}", where=f"--metric {name}", do=do)

    @property
    def n_right(self) -> int:
        """Number of expected results (rows, boxes, symbols, tokens); the minimum over outputs."""
        return min(sum(map(self._count, of_cases)) for of_cases in self._right.values())

    def figures(self, side: Side) -> tuple[TaskFigure, ...]:
        """Return, for each output of the metric, its quality as a whole and that of the slice with the largest loss."""
        chosen = []
        for output, values in self._by_output(side).items():
            base = self._base[output]
            figures = [
                TaskFigure(output=output, slice=place, base=base[place], value=value)
                for place, value in values.items()
            ]
            chosen += figures[:1]
            chosen += sorted(figures[1:], key=lambda figure: figure.value - figure.base)[:1]
        return tuple(chosen)

    def _by_output(self, side: Side) -> dict[str, dict[str, float]]:
        return {output: self._of(self._cases, right, side, output) for output, right in self._right.items()}


def worst(of: Sequence[TaskFigure]) -> TaskFigure:
    """Return the whole-output figure with the largest relative loss."""
    return min(
        (figure for figure in of if not figure.slice), key=lambda figure: figure.value / (figure.base or 1.0)
    )
