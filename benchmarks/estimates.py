"""How far estimates of findings are from what their fixes brought: their bounds, and measurements of models alike.

    python benchmarks/estimates.py [--timed --budget 120s] [--models ...]

Without ``--timed`` the gains are those that ``docs/results.md`` records. With it, each exact fix that ``check`` finds
in the models is compared with the model as it is, and these gains are held against the estimates. A bound that lies
below what a fix brought is false, and is marked.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

import ortune
from common import model_path
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.inputs import workload
from ortune.inputs.run_cost import run_cost
from ortune.records import Finding, Plan, RewriteSpec
from ortune.rules import expected_gains, fixable

MODELS = (
    "magika",
    "ppocrv4-rec",
    "ppocrv4-det",
    "minilm-int8",
    "basic-pitch",
    "silero-vad",
    "oww-silero-vad",
)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What a fix brought on a model, as a ratio of times and its interval."""

    model: str
    fixes: tuple[str, ...]
    ratio: float
    low: float
    high: float


def recorded() -> list[Gain]:
    """Of the tables in ``docs/results.md``; several rewrites that were measured together are one fix."""
    found = {
        (each.model, frozenset((name, *each.others))): each
        for name, some in expected_gains.measured().rewrites.items()
        for each in some
    }
    return [
        Gain(model=model, fixes=tuple(sorted(fixes)), ratio=e.ratio, low=e.ratio_low, high=e.ratio_high)
        for (model, fixes), e in sorted(found.items(), key=lambda item: (item[0][0], sorted(item[0][1])))
    ]


def timed(models: list[str], budget: str, store: Path) -> Iterator[Gain]:
    """Of each exact fix that ``check`` finds, measured now."""
    for model in models:
        path = str(model_path(model))
        for finding in ortune.check(path).result.models[0].findings:
            if not fixable(finding) or finding.plan is None:
                continue
            names = [spec.name for spec in finding.plan.rewrites]
            result = ortune.compare(path, b_rewrite=names, budget=budget, store=store).result
            found = result.comparison
            if found is None or not found.ratio_low or not found.ratio_high:
                print(f"{model}, {', '.join(names)}: the budget holds no interval", file=sys.stderr)
                continue
            yield Gain(
                model=model, fixes=tuple(names), ratio=found.ratio, low=found.ratio_low, high=found.ratio_high
            )


def estimate(gain: Gain) -> Finding:
    """What is said of these fixes together before anything is measured, without what was measured on that model."""
    opened = open_model(model_path(gain.model))
    specs = rewrites.in_order(RewriteSpec(name=name) for name in gain.fixes)
    finding = Finding(code="", what="", plan=Plan(rewrites=specs))
    work = workload.propose(opened.ir)
    (found,) = expected_gains.estimated([finding], opened.ir, run_cost(opened.ir, work)[1])
    return msgspec.structs.replace(found, brought=tuple(e for e in found.brought if e.model != gain.model))


def row(gain: Gain) -> str:
    """A line of the table."""
    found = estimate(gain)
    bound = 1 / found.least_ratio if found.least_ratio else None
    brought = 1 / gain.ratio
    false = bound is not None and 1 / gain.high > bound
    alike = found.brought[0] if found.brought else None
    cells = [
        gain.model,
        ", ".join(gain.fixes),
        f"{100 * found.share_ratio:.0f} %" if found.share_ratio is not None else "",
        f"at most {bound:.2f}x" if bound else "none",
        f"{1 / alike.ratio:.2f}x ({alike.model})" if alike else "none",
        f"{brought:.2f}x ({1 / gain.high:.2f}-{1 / gain.low:.2f})",
        "false" if false else f"{bound / brought:.2f} times" if bound else "",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timed", action="store_true")
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    asked = parser.parse_args()
    print("| model | fix | share of the work | bound | on a similar model | measured | bound over measured |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        gains = timed(asked.models, asked.budget, Path(folder)) if asked.timed else iter(recorded())
        for gain in gains:
            print(row(gain), flush=True)


if __name__ == "__main__":
    main()
