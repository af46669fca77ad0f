"""Tolerances of ``--tolerance``: the accepted distance of outputs from those of the base, in several measures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from ortune.errors import UsageError
from ortune.outputs.ways import slice_limit
from ortune.records import AcceptedChange, NonFiniteOutput, OutputDifference, OutputError

_PART = re.compile(
    r"(l2|cosine|snr|top1|metric)\s*(<=|>=)\s*(\d+(?:\.\d+)?(?:e-?\d+)?)\s*(db|%|)", re.IGNORECASE
)
_HOW = {
    "l2": ("<=", ("", "%")),
    "cosine": (">=", ("",)),
    "snr": (">=", ("", "db")),
    "top1": (">=", ("", "%")),
    "metric": (">=", ("", "%")),
}
UNASKED_OF_ROWS = 0.09
"""Relative L2 limit for rows if the tolerance sets no distance; the limit of the largest error is ten times this."""
_LEAST_LACK = 1e-3
"""Minimum allowed deficit of a fraction, to avoid division by zero if the fraction must be 1."""
_DO = "use e.g. 0.01, l2<=1%, cosine>=0.999, snr>=30dB or top1>=0.99; separate several by commas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """An accepted difference of outputs; measures without a limit are None.

    Attributes:
        text: The text of the option.
        number: A plain number: the limit of the relative L2 distance; the limit of the largest error is ten times this.
        relative_l2: Maximum relative L2 distance of each output.
        cosine, snr_db: Minimum cosine similarity, and minimum signal-to-noise ratio, of each output.
        top1: Minimum fraction of rows with the same largest element, over all inputs.
        metric, metric_of_base: Minimum of the user's metric, and minimum as a fraction of the base's metric.
    """

    text: str
    number: float | None = None
    relative_l2: float | None = None
    cosine: float | None = None
    snr_db: float | None = None
    top1: float | None = None
    metric: float | None = None
    metric_of_base: float | None = None

    @property
    def of_rows(self) -> float:
        """Equivalent relative L2 limit for rows, which are matched one by one and have no other measures."""
        asked = [self.number, self.relative_l2]
        if self.snr_db is not None:
            # 30 dB are a relative L2 distance of 0.032.
            asked.append(10.0 ** (-self.snr_db / 20.0))
        if self.cosine is not None:
            # The sine of the angle, 0.045 for a cosine of 0.999, is the smallest distance at that angle.
            asked.append(math.sqrt(1.0 - self.cosine**2))
        return min((limit for limit in asked if limit is not None), default=UNASKED_OF_ROWS)

    def times(self, difference: OutputDifference) -> float:
        """Return the largest ratio of a measure to its limit; 1 if the outputs are accepted.

        The ratio is infinite if the outputs are not comparable. Fractions and metrics count by their deficit.
        """
        if difference.ok:
            return 1.0
        if not difference.comparable:
            return math.inf
        lacks = [(self.top1, difference.top1, 1.0), (self.cosine, difference.cosine, 1.0)]
        if difference.metric_base is not None:
            least = self.metric
            if self.metric_of_base is not None:
                least = difference.metric_base - (1.0 - self.metric_of_base) * abs(difference.metric_base)
            lacks.append((least, difference.metric, difference.metric_base))
        ratios = [
            (full - of) / max(_LEAST_LACK, full - least)
            for least, of, full in lacks
            if least is not None and of is not None
        ]
        if not ratios or self.number is not None or self.relative_l2 is not None or self.snr_db is not None:
            ratios.append(difference.worst_slice_l2 / self.of_rows)
        # Failures without a measure (a label, a shape, a dead slice) still exceed the limit.
        return max(*ratios, math.nextafter(1.0, 2.0))

    @property
    def of_metric(self) -> bool:
        """Whether the tolerance limits the user's metric."""
        return self.metric is not None or self.metric_of_base is not None


def parse(value: str | float | None) -> Tolerance | None:
    """Parse the value of ``--tolerance``; None stays None.

    Raises:
        UsageError: If the value is neither a positive number nor a list of limits.
    """
    if value is None:
        return None
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return _budget(text)
    if not (math.isfinite(number) and number > 0.0):
        raise UsageError(f"{text} is not a positive number", where="--tolerance", do=_DO)
    return Tolerance(text=text, number=number)


def _budget(text: str) -> Tolerance:
    limits: dict[str, float] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"{part.strip()!r} is not a tolerance", where="--tolerance", do=_DO)
        name, sign, unit = match[1].lower(), match[2], match[4].lower()
        if sign != _HOW[name][0] or unit not in _HOW[name][1] or name in limits:
            raise UsageError(f"{part.strip()!r} is not a tolerance", where="--tolerance", do=_DO)
        limits[name] = float(match[3]) / (100.0 if unit == "%" else 1.0)
        if name == "metric" and unit == "%":
            limits["metric_of_base"] = limits.pop("metric")
        elif name in ("cosine", "top1") and limits[name] > 1.0:
            raise UsageError(f"{part.strip()!r} requires more than 1", where="--tolerance", do=_DO)
    return Tolerance(
        text=text,
        relative_l2=limits.get("l2"),
        cosine=limits.get("cosine"),
        snr_db=limits.get("snr"),
        top1=limits.get("top1"),
        metric=limits.get("metric"),
        metric_of_base=limits.get("metric_of_base"),
    )


def worst_of(differences: Sequence[OutputDifference]) -> OutputDifference:
    """Combine the differences of all inputs: the worst input's difference, with the worst measures of each output."""
    # Inputs with empty outputs, such as no detections, are ignored if others have elements.
    differences = [d for d in differences if not d.empty] or differences
    # Incomparable outputs are worst, then those that no tolerance accepts, then the largest distance.
    worst = max(
        differences,
        key=lambda d: (
            not d.comparable,
            not d.ok,
            not d.ok and d.accepting_tolerance is None,
            # The limit of the largest error is ten times that of the distance.
            d.relative_l2 if d.ok else max(d.worst_slice_l2, 0.1 * d.max_error),
        ),
    )
    outputs: dict[str, OutputError] = {}
    for output in (output for difference in differences for output in difference.outputs):
        outputs[output.name] = _worse_of(outputs[output.name], output) if output.name in outputs else output
    accepting = [d.accepting_tolerance for d in differences if d.accepting_tolerance is not None]
    return msgspec.structs.replace(
        worst,
        relative_l2=max(d.relative_l2 for d in differences),
        max_error=max(d.max_error for d in differences),
        cosine=min((d.cosine for d in differences if d.cosine is not None), default=None),
        top1=min(top1_by_output(differences).values(), default=None),
        accepting_tolerance=None if worst.accepting_tolerance is None else max(accepting),
        outputs=tuple(outputs.values()),
        silent=all(d.silent for d in differences),
        accepted=tuple(_accepted(differences)),
        compared_as=next(
            (d.compared_as for d in differences if d.compared_as != "values"), worst.compared_as
        ),
        nonfinite=tuple(_nonfinite(differences)),
        nonfinite_reference=sum(d.nonfinite_reference for d in differences),
        nonfinite_candidate=sum(d.nonfinite_candidate for d in differences),
    )


def _accepted(differences: Sequence[OutputDifference]) -> Iterator[AcceptedChange]:
    """Yield the accepted changes of each kind, summed over the inputs."""
    changes = [change for difference in differences for change in difference.accepted]
    for key in dict.fromkeys((change.output, change.reason, change.what) for change in changes):
        mine = [change for change in changes if (change.output, change.reason, change.what) == key]
        if key[1] == "empty" and len(mine) < len(differences):
            continue  # with other inputs it has elements
        yield msgspec.structs.replace(
            mine[0],
            n_differing=sum(change.n_differing for change in mine),
            n_elements=sum(change.n_elements for change in mine),
        )


def _nonfinite(differences: Sequence[OutputDifference]) -> Iterator[NonFiniteOutput]:
    """Yield the counts for each output with non-finite elements, summed over the inputs."""
    outputs = [output for difference in differences for output in difference.nonfinite]
    for name in dict.fromkeys(output.name for output in outputs):
        mine = [output for output in outputs if output.name == name]
        yield NonFiniteOutput(
            name=name,
            n_elements=sum(output.n_elements for output in mine),
            nonfinite_reference=sum(output.nonfinite_reference for output in mine),
            nonfinite_candidate=sum(output.nonfinite_candidate for output in mine),
            unusable_reference=sum(output.unusable_reference for output in mine),
            unusable_candidate=sum(output.unusable_candidate for output in mine),
        )


def _worse_of(one: OutputError, other: OutputError) -> OutputError:
    """Combine an output's errors for two inputs: the worse value of each measure, and the rows of both."""
    further = max(one, other, key=lambda error: error.relative_l2)
    slices = [error.worst_slice for error in (one, other) if error.worst_slice is not None]
    steps = [error.steps for error in (one, other) if error.steps is not None]
    rows = one.n_rows + other.n_rows
    return msgspec.structs.replace(
        further,
        max_error=max(one.max_error, other.max_error),
        cosine=min((c for c in (one.cosine, other.cosine) if c is not None), default=None),
        top1=sum((error.top1 or 0.0) * error.n_rows for error in (one, other)) / rows if rows else None,
        n_rows=rows,
        silent=one.silent and other.silent,
        steps=max(steps, key=lambda step: (not step.same, step.most, step.share), default=None),
        worst_slice=max(slices, key=lambda error: error.relative_l2, default=None),
        dead_slices=one.dead_slices or other.dead_slices,
    )


def judged(
    differences: Sequence[OutputDifference], asked: Tolerance, metrics: tuple[float, float] | None = None
) -> OutputDifference:
    """Return the worst difference of all inputs, with the tolerance's verdict and a sentence on the missed limit.

    Args:
        differences: Difference of each input.
        asked: The tolerance.
        metrics: The user's metric for base and candidate; None without a metric.
    """
    worst = msgspec.structs.replace(worst_of(differences), asked=asked.text, tolerance=None)
    if metrics is not None:
        finite = [value if math.isfinite(value) else None for value in metrics]  # JSON has no other
        worst = msgspec.structs.replace(worst, metric_base=finite[0], metric=finite[1])
    by_value = all(d.ok or d.accepting_tolerance is not None for d in differences)
    if not (worst.comparable and by_value):
        return worst  # a label, a shape or NaN, which no distance measures
    missed = next(_missed(differences, asked), "") or _missed_metric(asked, metrics)
    accepting = worst.accepting_tolerance if missed else None
    return msgspec.structs.replace(worst, ok=not missed, what=missed, accepting_tolerance=accepting)


def _missed(differences: Sequence[OutputDifference], asked: Tolerance) -> Iterator[str]:
    """Yield a sentence for each missed limit."""
    for output in (output for difference in differences for output in difference.outputs):
        name = output.name
        if asked.relative_l2 is not None and output.relative_l2 > asked.relative_l2:
            yield f"output {name!r} differs: relative L2 {output.relative_l2:.2g}, limit {asked.relative_l2:.2g}"
        worst = output.worst_slice
        if asked.relative_l2 is not None and worst is not None:
            limit = slice_limit(output.limit, asked.relative_l2)
            if worst.relative_l2 > limit:
                far = f"relative L2 {worst.relative_l2:.2g} in row {worst.first} of axis {worst.axis}"
                yield f"output {name!r} differs: {far}, limit {limit:.2g}"
        if asked.snr_db is not None and output.snr_db is not None and output.snr_db < asked.snr_db:
            yield f"output {name!r} differs: SNR {output.snr_db:.1f} dB, limit {asked.snr_db:g} dB"
        if asked.cosine is not None and output.cosine is not None and output.cosine < asked.cosine:
            yield f"output {name!r} differs: cosine {output.cosine:.6g}, limit {asked.cosine:g}"
    if asked.top1 is None:
        return
    shares = top1_by_output(differences)
    if not shares:
        yield "no output has rows of scores (two or three dimensions), so there is no top-1 agreement"
    for name, share in shares.items():
        if share < asked.top1:
            yield f"output {name!r}: top-1 agreement {share:.4g}, limit {asked.top1:g}"


def top1_by_output(differences: Sequence[OutputDifference]) -> dict[str, float]:
    """Return the fraction of rows with the same largest element over all inputs, by name of output with scores."""
    rows: dict[str, list[tuple[float, int]]] = {}
    for output in (output for difference in differences for output in difference.outputs):
        if output.top1 is not None:
            rows.setdefault(output.name, []).append((output.top1, output.n_rows))
    return {name: sum(s * n for s, n in shares) / sum(n for _, n in shares) for name, shares in rows.items()}


def _missed_metric(asked: Tolerance, metrics: tuple[float, float] | None) -> str:
    if metrics is None:
        return ""
    base, new = metrics
    # For negative values (an error with its sign inverted) 99 % is lower by a hundredth, not nearer to 0.
    least = asked.metric if asked.metric_of_base is None else base - (1.0 - asked.metric_of_base) * abs(base)
    if least is None or new >= least:
        return ""
    return f"the metric is {new:.6g}, {base:.6g} for the baseline; limit {least:.6g}"
