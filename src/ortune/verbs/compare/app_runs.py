"""Runs a whole application alternately without and with a bundle, and compares the outputs of some of its calls."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ortune.errors import MeasurementError, UsageError
from ortune.inputs.value_files import write_outputs
from ortune.outputs.comparison import compare_outputs
from ortune.recorder import apply_hook, doors, values, whole_run
from ortune.recorder import hook as recorder
from ortune.recorder.applying import prepare
from ortune.recorder.whole_run import WholeRun
from ortune.records import Block, BlockTrial, CaseTimes, Measured, OutputDifference, SessionChange, TrialDone
from ortune.search.blocks import BASE, IDENTICAL, NEW
from ortune.verbs.compare.app_words import NOT_COMPARED

SAMPLED_CALLS = "3"
"""Number of calls per recorded row whose outputs are compared, as the value of an environment variable."""
MOST_ARRAYS = 200
LIMIT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRuns:
    """Runs a program with and without the changes of a bundle.

    Attributes:
        command: Program and arguments.
        given: Environment of the program.
        changes, variables: The session changes and environment variables of the bundle.
        scratch: Scratch folder for these runs.
        pattern: Pattern whose group matches a number in the program's output; None without ``--app-metric``.
        metrics: The matched numbers of all runs so far, keyed by arm.
    """

    command: Sequence[str]
    given: Mapping[str, str]
    changes: Sequence[SessionChange]
    variables: Mapping[str, str]
    scratch: Path
    pattern: re.Pattern[str] | None = None
    metrics: dict[str, list[float]] = field(default_factory=dict)

    def run(self, arm: str, *, folder: Path | None = None) -> WholeRun:
        """Run the program once, from start to end, and return its measurements.

        Args:
            arm: The arm; ``NEW`` runs with the changes, any other arm without.
            folder: Folder for a recording of the run with the values of some calls; None records nothing.

        Raises:
            UsageError: The program cannot be started.
            MeasurementError: The program failed.
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
        """Run each arm once, in the given order, and return the block of these runs."""
        trials = tuple(BlockTrial(arm=arm, outcome=_measured(self.run(arm))) for arm in order)
        return Block(index=index, phase="race", trials=trials)

    def outputs(self, say: Callable[[str], None]) -> tuple[OutputDifference, int, WholeRun]:
        """Run each side once, recording the values of some calls, and compare the outputs of calls with equal inputs.

        Returns:
            The output difference, the number of compared calls, and the run of the base.
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
        folders = [self.scratch / f"outputs-{n}" for n in range(len(found))]
        for folder, side in zip(folders, found, strict=True):
            write_outputs(
                folder,
                (
                    (f"call {number}, output {place}", str(output.dtype), output)
                    for number, key in enumerate(common, 1)
                    for place, output in enumerate(side[key], 1)
                ),
            )
        return compare_outputs(*folders), len(common), runs[0]


ARMS = (BASE, IDENTICAL, NEW)


def _measured(run: WholeRun) -> Measured:
    """Convert a run of a program to a trial with a single timed run."""
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
