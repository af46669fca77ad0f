"""A trial in a local process that works in turns and is stopped between them.

Processes that take turns are stopped while they wait. ONNX Runtime's threads spin for about 40 ms after a run, so a
process that only waited would disturb the others. A stopped process continues spinning when it is resumed, as between
two consecutive runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ortune.catalogue import knobs, providers
from ortune.catalogue.captured_graph import captures
from ortune.platform import SensorSnapshot, between
from ortune.records import (
    Applied,
    Batch,
    Command,
    Failed,
    Finish,
    Loaded,
    Measured,
    Outcome,
    ReadBack,
    SoakDone,
    SoakPoint,
    SoakRequest,
    SoakTurn,
    TimeSource,
    TrialDone,
    TrialError,
    TrialRequest,
    TurnOver,
    Warm,
)
from ortune.targets.ignored import ignored
from ortune.targets.machine import Machine
from ortune.targets.remote_process import RemoteChild
from ortune.targets.task import TrialTask
from ortune.targets.turns import Runner
from ortune.targets.worker import POLL_LOADING_S, Worker


class ProcessRunner(Worker):
    """Runner of a trial in a process of this machine.

    Args:
        task: The trial.
        settings: The plan's settings.
        machine: Machine of the trial.
        group: All runners that are alive at the same time, including this one. If there are others, the process sleeps
            between its turns.
    """

    def __init__(
        self, task: TrialTask, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Runner]
    ) -> None:
        super().__init__(task.runtime, task.folder, task.scratch, task.limits, machine.pod_bytes)
        self.task, self.settings, self.machine, self.group = task, settings, machine, group
        self._started_at = ""
        self._there: list[SensorSnapshot] = []

    @property
    def others_bytes(self) -> int:
        """Memory of the other runners in its group, in bytes.

        While models load, several runners may grow; later only the one whose turn it is.
        """
        return sum(other.held_bytes for other in self.group if other is not self)

    def start(self) -> None:
        """Start the process, which then loads the model."""
        self._started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        task, pod, settings = self.task, self.machine.pod, self.settings
        if lacking := knobs.without_instructions(task.plan.settings, self.machine.host.features):
            self.end = self.error("not-applied", lacking)
            return
        if pod is not None and pod.affinity:
            affinity = Applied(knob="cpus", channel="process", key="affinity", value=pod.affinity)
            settings = (*settings, affinity)
        # Trials of one invocation share the files of a setting; a plan never determines their folder.
        settings = tuple(
            msgspec.structs.replace(s, value=str(task.scratch / str(s.value))) if s.probe == "folder" else s
            for s in settings
        )
        self.open(settings)
        if not self.live:
            return
        if pod is not None and self.child is not None:
            pod.enter(self.child.pid)
        self.send(self.request(settings))

    def request(self, settings: tuple[Applied, ...]) -> TrialRequest | TimeSource | SoakRequest:
        """Return the first request to the process."""
        task = self.task
        provider = providers.find(task.plan.provider_names[0])
        return msgspec.structs.replace(
            task.request,
            model=str(Path(task.request.model).absolute()),  # the worker has a working directory of its own
            applied=(*settings, *task.request.applied),
            providers=task.plan.providers,
            device_memory=provider.memory,
            captures=captures(task.plan, settings),
            gpu_tracer=provider.tracer if task.request.profile_path else "",
        )

    def loaded(self) -> bool:
        """Wait briefly; return whether the process has loaded the model and sleeps, or has failed."""
        if self.live and self.follow(Loaded, POLL_LOADING_S):
            self._require_options()
            self._rest()
            return True
        return not self.live

    def warm(self) -> None:
        """Run each case once and warm up, as one turn."""
        self._look_there()
        self._turn(Warm())

    def batch(self, runs: int, unmeasured: int) -> None:
        """Time a batch of runs after some untimed runs, as one turn."""
        self._turn(Batch(runs=runs, unmeasured=unmeasured))

    def finish(self) -> None:
        """Get the report of the process, as its last turn."""
        self._look_there()
        self._turn(Finish(), TrialDone)

    def outcome(self, before: SensorSnapshot, after: SensorSnapshot) -> Outcome:
        """Return the outcome of the closed process."""
        end = self.end
        failed = self.failed(end.read_back if isinstance(end, TrialDone) else ())
        if failed is not None:
            return failed
        assert isinstance(end, TrialDone)
        if len(self._there) > 1:
            before, after = self._there[0], self._there[-1]
        return Measured(
            plan=self.task.plan.id,
            done=end,
            sensors=between(
                before,
                after,
                involuntary_switches=end.involuntary_switches,
                cpu_over_wall=end.cpu_ns / end.wall_ns if end.wall_ns and end.cpu_ns else None,
            ),
            log=self.log(),
            outputs_path=self.task.request.outputs_path,
            started_at=self._started_at,
            elapsed_ns=self.elapsed_ns,
        )

    def failed(self, read_back: Iterable[ReadBack]) -> Failed | None:
        """Return the failure of the process, which has ended; None if it succeeded.

        Args:
            read_back: Verification of the settings.
        """
        end = self.end
        wrong = next((read for read in read_back if not read.ok), None)
        if wrong is not None:
            what = f"{wrong.knob} was not applied: {wrong.seen or 'no effect observed'}"
            end = TrialError(reason="not-applied", what=what)
        if not isinstance(end, TrialError):
            return None
        return Failed(
            plan=self.task.plan.id,
            reason=end.reason,
            what=end.what,
            phase=end.phase,
            log=self.log(),
            started_at=self._started_at,
            elapsed_ns=self.elapsed_ns,
        )

    def _look_there(self) -> None:
        """Read the sensors of the remote machine, if the process runs on one and is still alive."""
        if (
            self.live
            and isinstance(self.child, RemoteChild)
            and (snapshot := self.child.sensors()) is not None
        ):
            self._there.append(snapshot)

    def _require_options(self) -> None:
        """End the trial if its log shows that a provider option was ignored, since results would be invalid."""
        named = {key: f"{key}={value}" for p in self.task.plan.providers for key, value in p.options.items()}
        own = [s for s in self.settings if s.channel == "provider_option"]
        named.update({s.key: s.knob for s in own if "/" not in s.key})
        what = ignored(self.log(), named) if self.live and named else ""
        if what:
            self.end = self.error("not-applied", what)
            self.close()

    def _memory_trouble(self) -> str:
        """Return a message if the process exceeds its memory limits and no larger process is also loading; else ""."""
        loading = [
            process
            for process in self.group
            if isinstance(process, ProcessRunner) and process.phase != "running"
        ]
        if self in loading and any(process.held_bytes > self.held_bytes for process in loading):
            return ""
        return super()._memory_trouble()

    def _turn(
        self,
        command: Command | SoakTurn,
        until: type[TurnOver | TrialDone | SoakPoint | SoakDone] = TurnOver,
    ) -> None:
        if self.live:
            if len(self.group) > 1 and self.child is not None:
                self.child.sleep(False)
            self.timing = isinstance(command, Batch)
            self.send(command)
            self.follow(until)
            self._rest()

    def _rest(self) -> None:
        """Stop the process, including its spinning threads, until its next turn."""
        if len(self.group) > 1 and self.live and self.child is not None:
            self.child.sleep(True)
