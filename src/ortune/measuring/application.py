"""A recorded application, prepared for replay: its models, inputs, processes and settings."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec

from ortune import targets
from ortune.catalogue.providers import CPU, REMOTE, find
from ortune.errors import InputError, UsageError
from ortune.inputs import recorded, recording_file
from ortune.inputs.played import Feed, FeedKey, ReplayPart, Script, batched, scripts_of
from ortune.inputs.recording_file import case_name, value_name
from ortune.inputs.retimed import retimed
from ortune.measuring import recorded_settings
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.play_totals import PlayTrial, totals
from ortune.measuring.recorded_models import find_models, has_free_batch, has_threads
from ortune.measuring.sides import ResolvedSide, SideText
from ortune.records import (
    Applied,
    FeedRef,
    PlayedFeed,
    PlayedSession,
    PlayRequest,
    RecordedSession,
    Recording,
    Runtime,
    TrialError,
    Value,
)
from ortune.runtimes import node
from ortune.stats.arrivals import RECORDED as ARRIVALS_RECORDED
from ortune.stats.arrivals import RecordedArrivals
from ortune.targets.playing import play
from ortune.targets.task import Limits

RECORDED = "recorded"
MOST_SHAPES = 64
"""Maximum number of input shapes per model, since a replay generates and checks inputs for each."""
REPEATED_CALLS = 1000
"""Number of calls up to which a recording is repeated at a given rate, since a queue and a p99 need many calls."""
MOST_PROCESSES, MOST_THREADS = 64, 512
"""Maximum number of processes and threads of a play, since a recording may be from a larger machine."""
FIRST_SHARE = 0.2
"""Maximum fraction of the remaining time for loading a model, and for its first run."""
_LONGER = 20
"""Multiple of the recorded duration after which a play counts as a hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Changes to a recorded application; without changes, it runs as recorded.

    Attributes:
        settings: Settings of all sessions, which override recorded settings.
        share: Whether equal requests of a process share one session.
        providers: Execution providers that replace recorded providers, keyed by the model's index in the recording.
        variables: Environment variables of all processes.
        models: Files that replace models, keyed by the model's index in the recording.
        forms: Changes to the calls: "lists" converts lists to arrays, "strides" makes arrays contiguous, and "batches"
            joins consecutive calls into one.
    """

    name: str
    settings: Mapping[str, Value] = field(default_factory=dict)
    share: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    providers: Mapping[int, str] = field(default_factory=dict)
    models: Mapping[int, Path] = field(default_factory=dict)
    forms: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """Text that identifies the changes in the journal."""
        parts = (
            self.settings,
            self.share,
            self.variables,
            self.providers,
            sorted(self.models),
            sorted(self.forms),
        )
        return " ".join(map(str, parts))


class Application:
    """A recorded application with the model files that are needed to replay it.

    Attributes:
        recording: The recording.
        paths: Files of the models that were found, keyed by the model's index in the recording.
        missing: Names of the models that were not found, whose sessions are skipped.
        arrivals: Start times of calls; None if each call follows the previous one of its thread after its gap.
    """

    def __init__(
        self,
        opened: Experiment,
        recording: Recording,
        *,
        where: Path,
        models: Sequence[Path],
        arrivals: RecordedArrivals | None = None,
    ) -> None:
        """Find the models of a recording.

        Args:
            opened: The experiment.
            recording: The recording.
            where: File of the recording, for errors.
            models: Files and folders in which to search for models that are not at their recorded path.
            arrivals: Start times of calls; None for the recorded gaps.

        Raises:
            InputError: None of the called models was found.
        """
        self.opened, self.recording, self.where = opened, recording, where
        self.paths = find_models(recording, models)
        self.sides: dict[int, ResolvedSide] = {}
        self.bases: dict[int, Measuring] = {}
        self.refs: dict[FeedKey, FeedRef] = {}
        self.arrivals = arrivals
        self._plays = 0
        used = {session.model for session in recording.sessions if session.n_calls}
        self.missing = [
            Path(recording.models[index].path).name or f"sha256 {recording.models[index].sha256[:12]}"
            for index in sorted(used - set(self.paths))
        ]
        if not used & set(self.paths):
            raise InputError(
                f"none of its models is here ({', '.join(self.missing[:4]) or 'no calls'})",
                where=str(where),
                do="pass the files that the application loads with --models",
            )

    @property
    def runtime(self) -> Runtime:
        """The ONNX Runtime that replays the application."""
        return next(iter(self.sides.values())).runtime

    @property
    def version(self) -> str:
        """The version of the ONNX Runtime that replays the application."""
        side = next(iter(self.sides.values()))
        return side.runtime.version_of(side.plan)

    def resolve(self, runtime: str | None, *, in_node: bool = True) -> None:
        """Open each model that was called.

        A recording from Node.js is replayed in Node.js if no runtime is named and onnxruntime-node is on this machine.

        Args:
            runtime: Value of ``--runtime``.
            in_node: Whether Node.js may replay the recording.

        Raises:
            UsageError: ``runtime`` is onnxruntime-node, which cannot replay the recording.
        """
        release = self.recording.node_release if in_node else ""
        if node.named(runtime) and not release:
            raise UsageError(
                "Node.js does not play this recording",
                where=f"--runtime {runtime}",
                do="pass an environment of Python, or omit --runtime",
            )
        if runtime is None and release and not has_threads(self.recording):
            runtime = node.here(release)
        called = {session.model for session in self.recording.sessions if session.n_calls}
        for index, path in sorted(self.paths.items()):
            if index in called:
                self.sides[index] = self.opened.resolve(SideText(text=str(path), runtime=runtime))

    def find_inputs(self) -> None:
        """Find inputs with the recorded shapes for each model, and check that they run."""
        opened, seed = self.opened, self.opened.terms.feeds.seed
        limit_s = FIRST_SHARE * opened.budget.left_s
        values = recording_file.counted_values(self.recording)
        for index, side in self.sides.items():
            work = recorded.of_model(
                self.recording, side.model, None, where=str(self.where), seed=seed, most_cases=MOST_SHAPES
            )
            scratch = opened.scratch / f"model-{index}"
            scratch.mkdir()
            work = msgspec.structs.replace(work, gap_ns=0, callers=1)  # it is only tried
            base = opened.base_measuring(
                side,
                feeds=replace(opened.terms.feeds, workload=self.where),
                scratch=scratch,
                load=lambda _, work=work: work,  # type: ignore[misc]
                say=lambda _: None,
            )
            base.find_inputs(limit_s)
            self.bases[index] = base
            by_name = {ref.name: ref for ref in base.refs}
            sha256 = self.recording.models[index].sha256
            for session in self.recording.sessions:
                if session.model == index:
                    for shapes in map(recording_file.shapes_of, session.calls):
                        for number in range(max(1, values[sha256, shapes])):
                            ref = by_name.get(value_name(case_name(shapes), number))
                            if ref is not None:
                                self.refs[index, shapes, number] = ref

    def script(self, most_ns: float, *, repeated: bool = False) -> ReplayPart:
        """Return the part of the recording to play, with the start times of the first play.

        Args:
            most_ns: Time of a play: recorded time without idle time, or at the rate of ``arrivals``.
            repeated: Whether a short recording is repeated at the rate of ``arrivals``.

        Raises:
            InputError: The recording has too many processes or threads.
        """
        rate_per_s = None if self.arrivals is None else self.arrivals.rate_per_s
        most_calls = math.inf if rate_per_s is None else most_ns * rate_per_s / 1e9
        played = scripts_of(
            self.recording,
            frozenset(self.bases),
            most_ns if rate_per_s is None else math.inf,
            open_loop=self.arrivals is not None,
            most_calls=most_calls,
            least_calls=math.ceil(min(most_calls, REPEATED_CALLS)) if repeated and rate_per_s else 0,
            most_busy_ns=math.inf if rate_per_s is None else most_ns,
            feeds=self.refs,
        )
        threads = sum(len({step.thread for step in script.steps}) for script in played.scripts)
        if len(played.scripts) > MOST_PROCESSES or threads > MOST_THREADS:
            raise InputError(
                f"{len(played.scripts)} processes with {threads} threads are more than are played",
                where=str(self.where),
                do=f"record at most {MOST_PROCESSES} processes and {MOST_THREADS} threads that call a session",
            )
        return self.timed(played, 0)

    def timed(self, played: ReplayPart, number: int) -> ReplayPart:
        """Return a part with the start times of calls for one play; without ``arrivals``, the same part.

        Args:
            played: The part, of ``script``.
            number: Number of the play; each play has its own random times, and equal numbers have equal times.
        """
        arrivals = self.arrivals
        if arrivals is None:
            return played
        starts = partial(arrivals.starts, seed=(self.opened.terms.feeds.seed, number))
        timed = retimed(played, starts, arrivals.rate_per_s)
        return timed if arrivals.kind == ARRIVALS_RECORDED else replace(timed, cut_ns=0)

    def play(
        self, played: ReplayPart, variant: Variant, outputs: Path | None = None
    ) -> PlayTrial | TrialError | None:
        """Play once; return the trial, None after a stop, or the error of a failed process.

        Args:
            played: The part to play.
            variant: The changes.
            outputs: Folder for the outputs of the first call with each input; None to keep no outputs.
        """
        opened = self.opened
        if "batches" in variant.forms:
            played = self.batched(played)
        self._plays += 1
        folder = opened.scratch / f"play-{self._plays:04d}"
        requests = [
            self.request(script, variant, "" if outputs is None else str(outputs / str(number)))
            for number, script in enumerate(played.scripts)
        ]
        variables = [self.variables(script, variant) for script in played.scripts]
        # One process that never ends must not block the command forever.
        limit_s = max(60.0, _LONGER * played.span_ns / 1e9)
        limits = Limits(load_s=limit_s, run_s=limit_s)
        try:
            ended = play(requests, variables, self.runtime, folder, opened.scratch, limits, opened.watch.stop)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not isinstance(ended, tuple):
            return ended
        open_loop = self.arrivals is not None
        return totals(variant.name, played, ended, self.recording.sessions, open_loop=open_loop)

    def variables(self, script: Script, variant: Variant) -> tuple[Applied, ...]:
        """Return the environment variables of one process."""
        return recorded_settings.variables_of(self.recording.processes[script.process], variant.variables)

    def request(self, script: Script, variant: Variant, outputs: str = "") -> PlayRequest:
        """Return the request for one process."""
        recording = self.recording
        return PlayRequest(
            sessions=tuple(
                self._session(recording.sessions[index], variant, before=place in script.before)
                for place, index in enumerate(script.sessions)
            ),
            feeds=tuple(self._feed(each, variant) for each in script.feeds),
            steps=script.steps,
            applied=recorded_settings.affinity_of(
                recording.processes[script.process], os.sched_getaffinity(0)
            ),
            seed=self.opened.terms.feeds.seed,
            open_loop=self.arrivals is not None,
            outputs_path=outputs,
        )

    def _feed(self, feed: Feed, variant: Variant) -> PlayedFeed:
        ref = self.refs.get(feed.values)
        if ref is None:
            return PlayedFeed()
        return PlayedFeed(
            path=ref.path,
            lists=() if "lists" in variant.forms else feed.lists,
            strided=feed.strided and "strides" not in variant.forms,
            batch=feed.batch,
        )

    def batched(self, played: ReplayPart) -> ReplayPart:
        """Return the play with consecutive calls joined for models with a dynamic first dimension."""
        if self.arrivals is not None:
            return played  # calls at given times come one by one
        models = {index for index, base in self.bases.items() if has_free_batch(base.side.model.ir)}
        return replace(played, scripts=tuple(batched(script, models) for script in played.scripts))

    def _session(self, session: RecordedSession, variant: Variant, *, before: bool) -> PlayedSession:
        own = recorded_settings.settings_of(session)
        providers = recorded_settings.providers_of(session, self.runtime.offered)
        # As the hook does: requests with equal arguments share a session on the CPU.
        asked = (session.model, sorted(own.items()), [each.name for each in providers])
        if session.model in variant.providers:
            providers = targets.find(find(variant.providers[session.model]).target).providers
        on_cpu = {each.name for each in providers} <= {CPU.name, REMOTE.name}
        return PlayedSession(
            model=str(Path(variant.models.get(session.model, self.paths[session.model])).absolute()),
            applied=recorded_settings.applied({**own, **variant.settings}),
            providers=providers,
            shared=repr(asked) if variant.share and on_cpu and not session.inherited else "",
            before=before,
        )
