"""Whole runs of an application without and with a bundle, in alternation, and the outputs of some of their calls."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ortune.errors import MeasurementError, UsageError
from ortune.outputs.comparison import compare_outputs
from ortune.recorder import apply_hook, doors, values, whole_run
from ortune.recorder import hook as recorder
from ortune.recorder.applying import prepare
from ortune.recorder.whole_run import WholeRun
from ortune.records import Block, BlockTrial, CaseTimes, Measured, OutputDifference, SessionChange, TrialDone
from ortune.search.blocks import BASE, IDENTICAL, NEW
from ortune.verbs.compare.app_words import NOT_COMPARED

SAMPLED_CALLS = "3"
"""Number of calls of each row with compared outputs, as the value of an environment variable."""
MOST_ARRAYS = 200
LIMIT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRuns:
    """Runs a program with and without the changes of a bundle.

    Attributes:
        command: Program and arguments.
        given: Environment of the program.
        changes, variables: The changes of the bundle.
        scratch: Scratch folder for these runs.
        pattern: Pattern with a number as its first group; None without ``--metric``.
        metrics: The numbers of all runs so far, by arm.
    """

    command: Sequence[str]
    given: Mapping[str, str]
    changes: Sequence[SessionChange]
    variables: Mapping[str, str]
    scratch: Path
    pattern: re.Pattern[str] | None = None
    metrics: dict[str, list[float]] = field(default_factory=dict)

    def run(self, arm: str, *, folder: Path | None = None) -> WholeRun:
        """Run the program once.

        Args:
            arm: ``NEW`` has the changes.
            folder: Records the run there, with values of some calls.

        Raises:
            UsageError: It cannot be started.
            MeasurementError: It failed.
        """
        place = Path(self._fresh())
        environment = dict(self.given)
        if folder is not None:
            folder.mkdir()
            environment = doors.environment(folder, doors.prepare(place), environment)
            environment[recorder.VALUES] = SAMPLED_CALLS
        if arm == NEW:
            environment |= self.variables
            changes = place / "changes"
            own = place / "own"
            own.mkdir()
            door = prepare(own, changes, self.changes)
            if folder is None:
                environment = doors.environment(changes, door, environment, doors.APPLY_VARIABLE)
            else:
                environment[apply_hook.VARIABLE] = str(changes)
        try:
            done = whole_run.run(self.command, environment, place, limit_s=LIMIT_S)
        except OSError as error:
            raise UsageError(
                f"cannot be started: {error.strerror}",
                where=self.command[0],
                do="check the command of --app",
            ) from error
        if done.code != 0:
            side = "B" if arm == NEW else "A"
            ended = "did not end" if done.code is None else f"exited with {done.code}"
            last = done.output.strip().rpartition("\n")[2]
            raise MeasurementError(
                f"the program {ended} as side {side}: {last[:200]}",
                where=shlex.join(self.command),
                do="--app needs a program that ends by itself with exit code 0",
            )
        if self.pattern is not None:
            self.metrics.setdefault(arm, []).append(self._metric(done.output))
        return done

    def _fresh(self) -> str:
        number = sum(1 for _ in self.scratch.iterdir())
        place = self.scratch / f"run-{number}"
        place.mkdir()
        return str(place)

    def _metric(self, output: str) -> float:
        assert self.pattern is not None
        found = self.pattern.findall(output)
        try:
            return float(found[-1])
        except (IndexError, ValueError, TypeError):
            raise UsageError(
                f"no number in the output matches {self.pattern.pattern!r}",
                where="--app-metric",
                do="pass a regular expression with one group around the number",
            ) from None

    def block(self, index: int, order: Sequence[str]) -> Block:
        """Run each arm once in this order."""
        trials = tuple(BlockTrial(arm=arm, outcome=_measured(self.run(arm))) for arm in order)
        return Block(index=index, phase="race", trials=trials)

    def outputs(self, say: Callable[[str], None]) -> tuple[OutputDifference, int, WholeRun]:
        """Run both sides once with values of some calls, and compare those with equal inputs.

        Returns:
            The difference, the number of compared calls, and the run of the base.
        """
        found = []
        runs = []
        for arm, name in ((BASE, "A"), (NEW, "B")):
            say(f"warm-up of {name}")
            folder = self.scratch / f"values-{name}"
            runs.append(self.run(arm, folder=folder))
            found.append({call.key: call.outputs for call in values.calls(folder)})
        base, new = found
        common = [key for key in base if key in new][:MOST_ARRAYS]
        if not common:
            return OutputDifference(ok=False, what=NOT_COMPARED), 0, runs[0]
        folders = [
            _written([side[key] for key in common], self.scratch / f"outputs-{n}")
            for n, side in enumerate(found)
        ]
        return compare_outputs(*folders), len(common), runs[0]


ARMS = (BASE, IDENTICAL, NEW)


def _measured(run: WholeRun) -> Measured:
    """Return a run of a program as a trial with one run, in the form of the core."""
    times = CaseTimes(
        case="app", weight=1.0, latency_ns=(run.wall_ns,), first_ns=run.wall_ns, warmup_runs=0, turn_runs=(1,)
    )
    done = TrialDone(
        load_ns=1,
        cases=(times,),
        cpu_ns=run.cpu_ns,
        wall_ns=run.wall_ns,
        n_runs=1,
        peak_bytes=run.peak_bytes or None,
    )
    return Measured(plan="", done=done)


def _written(calls: Sequence[tuple[values.Array, ...]], folder: Path) -> Path:
    """Write the outputs of calls in a worker's format."""
    folder.mkdir()
    listed = []
    for number, outputs in enumerate(calls):
        for position, output in enumerate(outputs):
            file = f"{number}-{position}.npy"
            np.save(folder / file, output)
            listed.append({
                "name": f"call {number + 1}, output {position + 1}", "kind": "tensor",
                "onnx_type": str(output.dtype), "files": [file],
            })  # fmt: skip
    (folder / "outputs.json").write_text(json.dumps({"version": 1, "outputs": listed}), encoding="utf-8")
    return folder
