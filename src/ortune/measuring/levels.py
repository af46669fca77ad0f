"""Compares the outputs of a plan with the model's outputs without ONNX Runtime's optimisations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ortune import targets
from ortune.catalogue.levels import level_of
from ortune.catalogue.named import ENABLE_CPU_MEM_ARENA as ARENA
from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL as LEVEL
from ortune.catalogue.named import X64_QUANT_PRECISION as PRECISION
from ortune.catalogue.providers import CPU
from ortune.graph.dot_products import saturates
from ortune.graph.grids import input_grids, output_grids
from ortune.graph.model.graphs import nodes
from ortune.graph.model.save import save_model
from ortune.graph.outputs import output_comparisons, random_ops
from ortune.measuring import activations
from ortune.measuring.executor import Arm, Executor
from ortune.measuring.failures import raise_if_unrunnable
from ortune.measuring.scores import ScoreReader
from ortune.measuring.sides import ResolvedSide
from ortune.outputs import right_side, rounding
from ortune.outputs.comparison import compare_outputs
from ortune.outputs.exact import ExactOutputs
from ortune.outputs.tolerance import worst_of
from ortune.records import (
    ExactCheck,
    Failed,
    FeedRef,
    Host,
    LevelCheck,
    Measured,
    OutputDifference,
    Plan,
    Workload,
)
from ortune.records.base import Value
from ortune.store import small_files

NOTHING: Mapping[str, Value] = {}
CHECKS = "levels"
"""Folder of the stored checks, one small file each; a check that cannot be stored is repeated."""
NONE, LOWEST = "disable", "basic"
"""The optimisation level of the reference, and the level to use if a model does not run without optimisation."""
JUDGEMENT = 5
"""Version of the judgement of outputs; increase it with every change, so that stored judgements are not reused."""


class OutputsByLevel:
    """The outputs of one side by optimisation level; each level is run at most once, untimed.

    Args:
        side: The model with its plan.
        refs: The inputs.
        executor: Executor of the runs.
        work: Workload with the seed and the custom operators.
        folder: Scratch folder, created when needed.
        host: The machine that produces the outputs.
        store_folder: Folder in which results are stored for later sessions; None to store nothing.
    """

    def __init__(
        self,
        side: ResolvedSide,
        refs: Sequence[FeedRef],
        executor: Executor,
        work: Workload,
        folder: Path,
        *,
        host: Host,
        store_folder: Path | None,
    ) -> None:
        self._side, self._refs, self._executor = side, tuple(refs), executor
        self._work, self._folder = work, folder
        self._host, self._store_folder = host, store_folder
        self._scores = ScoreReader(side, executor, work, folder / "scores")
        self._outputs: dict[str, Path | None] = {}
        self._precise: dict[str, activations.PreciseOutputs | None] = {}
        self._moved: dict[float, OutputDifference | None] = {}

    @property
    def own(self) -> str:
        """The optimisation level of the side's plan."""
        return level_of(self._side.plan)

    def plan(self, level: str, settings: Mapping[str, Value] = NOTHING) -> Plan:
        """Return the side's plan at an optimisation level, with further settings."""
        plan = self._side.plan
        at = {} if level == self.own else {LEVEL.name: level}
        return msgspec.structs.replace(plan, settings={**plan.settings, **at, **settings})

    def outputs(self, level: str, settings: Mapping[str, Value] = NOTHING) -> Path | None:
        """Return the folder of the outputs at an optimisation level; None if the model does not run at that level."""
        plan = self.plan(level, settings)
        if plan.id not in self._outputs:
            self._outputs[plan.id] = self._run(plan, self._side.runs, self._refs)
        return self._outputs[plan.id]

    def reference(self) -> tuple[str, Path] | None:
        """Return the lowest level that runs, with its output folder; None if that is the side's level, or none runs."""
        for level in (NONE, LOWEST):
            if level == self.own:
                return None
            folder = self.outputs(level)
            if folder is not None:
                return level, folder
        return None

    def rounding_change(self, step: float = 0.0) -> OutputDifference | None:
        """Return the difference that moving inputs and small weights by one rounding step causes; None if unknown.

        Args:
            step: Step as a fraction of the values; 0 for one step of their types, and of the grids of quantized inputs.
        """
        if step not in self._moved:
            self._moved[step] = self._rounded(step)
        return self._moved[step]

    def is_rounding(self, difference: OutputDifference) -> bool:
        """Return whether a difference is within this model's sensitivity to rounding."""
        return difference.ok or not rounding.far_beyond(
            difference, self.rounding_change(self._step), few_bits=self._step > 0.0
        )

    def known(self) -> LevelCheck | None:
        """Return the stored check of the same model, plan, inputs and build on such a processor; None without one."""
        return (
            small_files.load(self._store_folder, CHECKS, self._key(), LevelCheck)
            if self._store_folder
            else None
        )

    def check(self, outputs: Path | None) -> LevelCheck | None:
        """Check outputs against the model without optimisation; return None if there is no reference.

        Args:
            outputs: The side's outputs for its inputs; None to run the side.
        """
        reference = self.reference()
        outputs = outputs or (self.outputs(self.own) if reference else None)
        if reference is None or outputs is None:
            return None
        level, folder = reference
        difference = self._explained(folder, self._compared(folder, outputs), level)
        wrong = not self.is_rounding(difference)
        moved = self._moved.get(self._step)
        # If the reference is unwritten memory, it does not show which level is right.
        unwritten = wrong and not self.repeats(level)
        right, settings = self.own, NOTHING
        if wrong:
            right, settings = ("", NOTHING) if unwritten else self._highest_right(level, folder)
        answer = LevelCheck(
            level=self.own,
            reference=level,
            wrong=wrong,
            outputs=difference,
            moved_relative_l2=moved.relative_l2 if moved and moved.comparable else None,
            right=right,
            right_settings=dict(settings),
            unwritten=unwritten,
            rounded=None if wrong or difference.cause else self._rounded_by_file(outputs),
        )
        self.store(answer)
        return answer

    def against_exact(
        self, outputs: Path, evaluated: ExactOutputs, before: LevelCheck | None = None
    ) -> ExactCheck:
        """Compare outputs with the outputs of the model evaluated in float64.

        Args:
            outputs: Outputs of this side, or of the same model on a different machine, for the same inputs.
            evaluated: The evaluation for these inputs.
            before: The check against the model without optimisation, whose right level is tried first; may be None.
        """
        if evaluated.wide is None or evaluated.plain is None:
            return ExactCheck(not_evaluated=evaluated.why, needed_s=evaluated.needed_s)
        difference = self._explained(evaluated.wide, self._compared(evaluated.wide, outputs))
        if difference.empty:
            return ExactCheck(not_evaluated="empty")
        finite, refuted = right_side.finite_alone(difference), self._refutes(difference)
        if not (finite or refuted):
            return ExactCheck(right=True, outputs=difference)
        if not (refuted and self._refutes(self._compared(evaluated.plain, outputs))):
            # In the model's own types the evaluator agrees with the outputs, so the model's precision is the cause.
            return ExactCheck(not_evaluated="unsure", finite=finite)
        level = self._exact_level(evaluated.wide, before)
        return ExactCheck(right=False, outputs=difference, right_level=level, finite=finite)

    def _exact_level(self, wide: Path, before: LevelCheck | None) -> str:
        """Return the highest level with the exact outputs; "" if no level has them, because a kernel is wrong."""
        if before is not None and before.wrong and before.right:
            there = self.outputs(before.right, before.right_settings)
            if there is not None and not self._refutes(self._compared(wide, there)):
                return before.right
        lowest = self.reference()
        if lowest is None or not self._is_exact(lowest[0], wide):
            return ""
        return next(level for level in reversed(LEVEL.choices) if self._is_exact(level, wide))

    def _is_exact(self, level: str, wide: Path) -> bool:
        """Return whether a level other than the side's gives the exact outputs in two runs."""
        if level == self.own or (there := self.outputs(level)) is None:
            return False
        return not self._refutes(self._compared(wide, there)) and self.repeats(level)

    def _refutes(self, difference: OutputDifference) -> bool:
        moved = None if difference.ok else self.rounding_change(self._step)
        if right_side.finite_alone(difference):
            # If rounding decides whether values are finite, no kernel is at fault.
            return moved is None or moved.nonfinite_reference == moved.nonfinite_candidate
        return not difference.ok and right_side.refutes(
            difference,
            moved,
            few_bits=self._step > 0.0,
            cpu=targets.target_of(self._side.plan).name == CPU.target,
        )

    def store(self, answer: LevelCheck) -> None:
        """Store the result of a check for later sessions."""
        if self._store_folder:
            small_files.keep(self._store_folder, CHECKS, self._key(), answer)

    def repeats(self, level: str, settings: Mapping[str, Value] = NOTHING) -> bool:
        """Return whether a level gives the same outputs again with different previous memory contents.

        A kernel that never writes its output returns zeros or old memory contents.
        """
        first = self.outputs(level, settings)
        arena = self._side.plan.settings.get(ARENA.name, True)
        again = first and self.outputs(level, {**settings, ARENA.name: not arena})
        return first is None or again is None or self._compared(first, again).ok

    def _explained(self, reference: Path, difference: OutputDifference, level: str = "") -> OutputDifference:
        """Return a difference of the side's outputs, accepted with its cause if activations were rounded to int8.

        Args:
            reference: Folder of the reference outputs.
            difference: The difference of the side's outputs from these.
            level: The level of the reference, which a file may request to round too; "" if nothing is rounded in it.
        """
        own = None if difference.ok else self._in_float32(self.own)
        if own is None:
            return difference
        other = self._in_float32(level) if level else None
        without = self._compared(other.folder if other else reference, own.folder)
        return activations.accepted_as_rounding(difference, without, own.options)

    def _rounded_by_file(self, outputs: Path) -> OutputDifference | None:
        """Return the difference that int8 activations cause at every level; None if the file requests none."""
        requested = activations.rounded_by_file(self._side.opened())
        precise = self._in_float32(self.own) if requested else None
        if precise is None:
            return None
        difference = self._compared(precise.folder, outputs)
        if difference.ok:
            return None
        # Only the accuracy level differs, so nothing else can be the cause.
        return activations.accepted_as_rounding(difference, OutputDifference(ok=True), precise.options)

    def _in_float32(self, level: str) -> activations.PreciseOutputs | None:
        """Return the outputs at a level with activations in float32; None if none are rounded, or the run fails."""
        if level not in self._precise:
            arm = self._arm(self.plan(level), self._side.runs, self._refs)
            self._precise[level] = activations.run_in_float32(
                self._executor, arm, self._side.opened(), self._folder / "float32"
            )
        return self._precise[level]

    @property
    def _step(self) -> float:
        """Rounding step of a low-bit model, as a fraction of the largest value; 0 for other models."""
        few_bits = any(node.op_type in rounding.OF_FEW_BITS for node in nodes(self._side.model.ir))
        return rounding.STEP_OF_FEW_BITS if few_bits else 0.0

    def _highest_right(self, reference: str, folder: Path) -> tuple[str, Mapping[str, Value]]:
        """Return the highest level with right outputs, at worst the reference's, and the settings that it needs."""
        choices = LEVEL.choices
        if self._step and saturates(self._host) and PRECISION.name not in self._side.plan.settings:
            # Fused 8-bit products are the most likely cause on such a processor, and slow to avoid.
            exact = {PRECISION.name: True}
            if self._as_reference(folder, self.own, exact):
                return self.own, exact
        # From just below the wrong level to just above the reference, which needs no run.
        for level in reversed(choices[choices.index(reference) + 1 : choices.index(self.own)]):
            if self._as_reference(folder, level):
                return level, NOTHING
        return reference, NOTHING

    def _as_reference(self, reference: Path, level: str, settings: Mapping[str, Value] = NOTHING) -> bool:
        """Return whether a level gives the reference's outputs in two runs."""
        there = self.outputs(level, settings)
        return (
            there is not None
            and self.is_rounding(self._compared(reference, there))
            and self.repeats(level, settings)
        )

    def _compared(self, reference: Path, outputs: Path) -> OutputDifference:
        return self._worst((ref, reference / ref.name, outputs / ref.name) for ref in self._refs)

    def _worst(self, pairs: Iterable[tuple[FeedRef, Path, Path]]) -> OutputDifference:
        """Return the largest difference over all inputs, from (input, reference folder, output folder) tuples."""
        model = self._side.model.ir
        comparisons, grids, random = output_comparisons(model), output_grids(model), bool(random_ops(model))
        return worst_of(
            [
                compare_outputs(
                    reference,
                    outputs,
                    comparisons=comparisons,
                    scores=self._scores.reader(comparisons, self._refs, ref),
                    grids=grids,
                    as_moments=random,
                )
                for ref, reference, outputs in pairs
            ]
        )

    def _rounded(self, step: float) -> OutputDifference | None:
        level, folder = self.reference() or (self.own, self.outputs(self.own))
        if folder is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        model = self._nudged(step)
        grids = None if step else input_grids(self._side.model.ir)
        draws = range(rounding.n_draws(folder / ref.name for ref in self._refs))
        # Each draw has its own seed.
        seed, place = self._work.seed, self._folder
        moved = {d: rounding.moved_feeds(self._refs, place, seed + d, grids, step) for d in draws}
        # All draws in one process: each further one would load the model again.
        refs = tuple(ref for of_draw in moved.values() for ref in of_draw)
        plan = self.plan(level)
        there = self._run(plan, model or self._side.runs, refs)
        if model is not None:
            model.unlink()
            # If the model with moved weights does not run, moving only the inputs still gives a lower limit.
            there = there or self._run(plan, self._side.runs, refs)
        if there is None:
            return None
        pairs = [pair for draw in draws for pair in zip(self._refs, moved[draw], strict=True)]
        return self._worst((ref, folder / ref.name, there / moved_ref.name) for ref, moved_ref in pairs)

    def _nudged(self, step: float) -> Path | None:
        """Write the model with small weights moved by one step; return None if none moves or it is too large."""
        if not self._side.can_be_edited:
            return None
        graph = rounding.nudged(self._side.model.ir, self._work.seed, step)
        if graph is None:
            return None
        path = self._folder / "moved.onnx"
        save_model(graph, path)
        return path

    def _arm(self, plan: Plan, model: Path, refs: tuple[FeedRef, ...]) -> Arm:
        name, runtime = f"level-{level_of(plan)}", self._side.runtime_of(plan)
        return Arm(name=name, plan=plan, model=model, runtime=runtime, feeds=refs)

    def _run(self, plan: Plan, model: Path, refs: tuple[FeedRef, ...]) -> Path | None:
        arm = self._arm(plan, model, refs)
        outcome = self._executor.untimed(arm)
        if isinstance(outcome, Failed) and outcome.reason == "disk-full":
            # A full disk is no property of the level; treating it as a failed level would select others.
            raise_if_unrunnable(outcome, arm)
        return Path(outcome.outputs_path) if isinstance(outcome, Measured) else None

    def _key(self) -> str:
        """Return a key of all that determines the result: the model, plan, inputs, build, processor and version."""
        side, digest = self._side, hashlib.sha256()
        files = [Path(library) for library in self._work.custom_ops]
        files += [file for ref in self._refs for file in sorted(Path(ref.path).iterdir())]
        build = side.runtime_of(side.plan).build
        for part in (
            f"{JUDGEMENT}",
            side.model.info.sha256,
            side.plan.id,
            build,
            self._host.machine,
            *self._host.features,
        ):
            digest.update(f"{part}\n".encode())
        for content in _digests(files):
            digest.update(content)
        return digest.hexdigest()[:32]


def _digests(files: Sequence[Path]) -> Iterator[bytes]:
    for file in files:
        with file.open("rb") as stream:
            yield hashlib.file_digest(stream, "sha256").digest()
