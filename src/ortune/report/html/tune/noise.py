"""Controls and noise: whether this machine could tell at all."""

from __future__ import annotations

from ortune.records import Control, Envelope, TuneResult
from ortune.report.checks import control_words, trouble
from ortune.report.html import points, svg

ORDER = 90
TITLE = "Controls and noise"
NOTE = (
    "A/A check: an identical plan must not differ. Positive control: a known wait must be found. The figure is the "
    "untouched default through the whole session: a level that moves is the machine, not the model."
)
HEIGHT = 130
CONTROL_NAMES = {
    "identical": "A/A check",
    "spike-in": "positive control",
    "identical-late": "A/A check, whole run",
}


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """The controls, the default over time, dropped blocks with their reasons."""
    result = envelope.result
    controls = [
        (CONTROL_NAMES[c.name], "; ".join(control_words([c])), c.n_blocks, _outcome(c))
        for c in result.controls
    ]
    dropped: dict[str, int] = {}
    for point in result.points:
        if point.dropped:
            dropped[point.dropped] = dropped.get(point.dropped, 0) + 1
    figure = _drift(result)
    if not controls and not dropped and figure is None:
        return None
    return {
        "controls": controls,
        "dropped": dropped,
        "figure": figure,
        "worth": f"{100 * result.worth_ratio:.1f} %",
    }


def _outcome(control: Control) -> str:
    """Of one control, in a word or two."""
    if not control.ok:
        return "FAILED"
    return "did not show" if trouble(control) else "passed"


def _drift(result: TuneResult) -> dict[str, object] | None:
    values = [None if p.dropped else points.value(result, p, "default") for p in result.points]
    known = [v for v in values if v is not None]
    if not known:
        return None
    scale = svg.value_scale(known)
    marks = [svg.level(scale, t, "grid") for t in scale.ticks]
    phases = [p.phase for p in result.points]
    starts = [i for i, phase in enumerate(phases) if i == 0 or phase != phases[i - 1]]
    for start in starts[1:]:
        x = svg.share(start / len(phases))
        marks.append(svg.tag("line", x1=x, x2=x, y1="0", y2="100%", class_="phase"))
    marks += svg.series(scale, values, "default", joined=False)
    order = list(dict.fromkeys(phases))
    alt = (
        f"The default in {len(known)} blocks: {points.show(result, min(known))} to "
        f"{points.show(result, max(known))}; phases in order: {', '.join(order)}"
    )
    return {
        "side": svg.side_labels(scale, [points.show(result, t) for t in scale.ticks], height=HEIGHT),
        "plot": svg.picture(alt, marks, height=HEIGHT),
        "phases": [
            (phases[i], (j - i) / len(phases))
            for i, j in zip(starts, [*starts[1:], len(phases)], strict=True)
        ],
    }
