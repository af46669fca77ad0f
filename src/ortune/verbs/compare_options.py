"""What ``compare`` can be asked, who is told what happens, and how a run looks from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ortune.records import Block, Envelope
from ortune.search import duel
from ortune.search.blocks import NEW
from ortune.stats import evidence
from ortune.trials.baseline import InputOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What ``compare`` can be asked; the names are those of the command line.

    Attributes:
        a, b: SIDE: a model, a bundle, a plan, or ``model.onnx@revision``. ``b`` omitted is A's model.
        settings, a_set, b_set: ``KNOB=VALUE`` for both sides or one.
        rewrites, b_rewrites: ``NAME[:k=v]`` for both sides or for B.
        inputs: What the model is fed, and under what load.
        budget_s: All measuring together.
        max_blocks: Blocks at most; None is 60, and more for a budget beyond two minutes.
        threshold: Regression that fails the gate, as a share; None without a gate.
        inject_wait: Busy wait added to B's runs as a share of each: a test of the whole chain.
        why: After a proven difference, profile both sides and say where it lies.
    """

    a: str
    b: str | None = None
    settings: Sequence[str] = ()
    a_set: Sequence[str] = ()
    b_set: Sequence[str] = ()
    rewrites: Sequence[str] = ()
    b_rewrites: Sequence[str] = ()
    plan: Path | None = None
    python: str | None = None
    a_python: str | None = None
    b_python: str | None = None
    target: str = "cpu"
    objective: str = "latency"
    inputs: InputOptions = field(default_factory=InputOptions)
    map_inputs: Mapping[str, str] = field(default_factory=dict)
    budget_s: float = 120.0
    max_blocks: int | None = None
    seed: int = 0
    store: Path | None = None
    wait: bool = True
    threshold: float | None = None
    undecided: Literal["pass", "fail"] = "pass"
    inject_wait: float = 0.0
    why: bool = True

    @property
    def most_blocks(self) -> int:
        """60 in two minutes; a longer budget was given to be used."""
        return self.max_blocks or max(60, int(self.budget_s / 2))


def progress_line(state: duel.Duel, design: duel.Design, block: Block) -> str:
    """Where the comparison stands, for a progress line."""
    n = len(state.blocks)
    if block.phase == "calibration":
        return f"block {n}: calibrating (an identical plan and a known wait)"
    interval = evidence.confidence_sequence(state.ratios(NEW), prior_scale=state.prior_scale)
    return (
        f"block {n} of at most {design.n_blocks}: B takes {100 * (interval.ratio - 1):+.1f} % of A's time "
        f"({100 * (interval.ratio_low - 1):+.1f} to {100 * (interval.ratio_high - 1):+.1f})"
    )


def exit_code(envelope: Envelope) -> int:
    """0 done; 1 the gate failed."""
    gate = envelope.result.gate
    if gate is None:
        return 0
    answer = gate.undecided_counts_as if gate.answer == "undecided" else gate.answer
    return 1 if answer == "fail" else 0
