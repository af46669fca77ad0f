"""An application that was recorded, made ready to be played: its models, inputs, processes, and their settings."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import onnx_ir as ir

from ortune import files
from ortune.catalogue.providers import CPU, REMOTE
from ortune.errors import InputError
from ortune.graph.shapes.symbols import feedable
from ortune.inputs import recorded, recording_file
from ortune.inputs.played import Feed, Played, Script, batched, scripts_of
from ortune.inputs.recording_file import Shapes, case_name, value_name
from ortune.measuring import recorded_settings
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.sides import Resolved, SideText
from ortune.records import (
    Applied,
    AppPlay,
    FeedRef,
    PlayDone,
    PlayedFeed,
    PlayedSession,
    PlayRequest,
    RecordedSession,
    Recording,
    Runtime,
    TrialError,
    Value,
)
from ortune.targets.playing import play
from ortune.targets.task import Limits

RECORDED = "recorded"
MOST_SHAPES = 64
"""Of one model; a replay makes and checks inputs for each."""
MOST_PROCESSES, MOST_THREADS = 64, 512
"""Of a play: a recording may come from elsewhere."""
_LONGER = 20
"""How many times as long as it was recorded a play may take before it is called a hang."""
_MODEL_FILES = (".onnx", ".ort")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What is changed of the recorded sessions; nothing is the application as it was.

    Attributes:
        settings: Of all sessions, over those that were recorded.
        share: Whether equal requests of a process get one session.
        providers: Execution providers of models, by their index in the recording, in the place of those that were
            recorded.
        variables: Environment variables of all processes.
        models: The files that are opened in the place of models, by their index in the recording.
        forms: What is changed of the calls: "lists" are arrays, arrays with "strides" are contiguous, and single calls
            that follow each other closely are one call in "batches".
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
        """What is changed, for the journal."""
        parts = (
            self.settings,
            self.share,
            self.variables,
            self.providers,
            sorted(self.models),
            sorted(self.forms),
        )
        return " ".join(map(str, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The times of one play by model: of each creation, and of each call."""

    created_ns: dict[int, list[int]]
    called_ns: dict[int, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One play: its totals, and its times by model."""

    play: AppPlay
    details: Details


class Application:
    """A recorded application.

    Attributes:
        recording: What was recorded.
        paths: The models that are here, by their index in the recording.
        missing: Names of the models that are not here, whose sessions are left out.
    """

    def __init__(
        self, opened: Experiment, recording: Recording, *, where: Path, models: Sequence[Path]
    ) -> None:
        """Find the models.

        Args:
            opened: The experiment.
            recording: What was recorded.
            where: Its file, for errors.
            models: Files and folders with models that are not where they were.

        Raises:
            InputError: None of its models is here.
        """
        self.opened, self.recording, self.where = opened, recording, where
        self.paths = find_models(recording, models)
        self.sides: dict[int, Resolved] = {}
        self.bases: dict[int, Measuring] = {}
        self.refs: dict[tuple[int, Shapes, int], FeedRef] = {}
        self.open_loop = False
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
        """The ONNX Runtime that plays it."""
        return next(iter(self.sides.values())).runtime

    def resolve(self, runtime: str | None) -> None:
        """Open each model that was called.

        Args:
            runtime: ``--runtime``.
        """
        called = {session.model for session in self.recording.sessions if session.n_calls}
        for index, path in sorted(self.paths.items()):
            if index in called:
                self.sides[index] = self.opened.resolve(SideText(text=str(path), runtime=runtime))

    def settle(self, limit_s: float) -> None:
        """Find inputs of each model with the recorded shapes that run.

        Args:
            limit_s: Seconds that a first run may take.
        """
        opened, seed = self.opened, self.opened.terms.feeds.seed
        values = recording_file.counted_values(self.recording)
        for index, side in self.sides.items():
            work = recorded.of_model(
                self.recording, side.model, None, where=str(self.where), seed=seed, most_cases=MOST_SHAPES
            )
            scratch = opened.scratch / f"model-{index}"
            scratch.mkdir()
            work = msgspec.structs.replace(work, gap_ns=0, callers=1)  # it is only tried
            base = opened.base(
                side,
                feeds=replace(opened.terms.feeds, workload=self.where),
                scratch=scratch,
                load=lambda _, work=work: work,  # type: ignore[misc]
                say=lambda _: None,
            )
            base.settle(limit_s)
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

    def script(self, most_ns: float, *, open_loop: bool = False) -> Played:
        """Return what is played of the recording in so many nanoseconds.

        Raises:
            InputError: It has more processes or threads than are played.
        """
        played = scripts_of(self.recording, frozenset(self.bases), most_ns, open_loop=open_loop)
        threads = sum(len({step.thread for step in script.steps}) for script in played.scripts)
        if len(played.scripts) > MOST_PROCESSES or threads > MOST_THREADS:
            raise InputError(
                f"{len(played.scripts)} processes with {threads} threads are more than are played",
                where=str(self.where),
                do=f"record at most {MOST_PROCESSES} processes and {MOST_THREADS} threads that call a session",
            )
        self.open_loop = open_loop
        scripts = tuple(
            replace(
                script,
                steps=tuple(
                    s for s in script.steps if s.do != "call" or script.feeds[s.feed].values in self.refs
                ),
            )
            for script in played.scripts
        )
        return replace(played, scripts=scripts)

    def play(
        self, played: Played, variant: Variant, outputs: Path | None = None
    ) -> Trial | TrialError | None:
        """Play it once; None after a stop.

        Args:
            played: What is played.
            variant: What is changed.
            outputs: A folder for the outputs of the first call with each of the inputs.
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
        # One process that never ends must not keep the command for ever.
        limit_s = max(60.0, _LONGER * played.span_ns / 1e9)
        limits = Limits(load_s=limit_s, run_s=limit_s)
        try:
            ended = play(requests, variables, self.runtime, folder, opened.scratch, limits, opened.watch.stop)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not isinstance(ended, tuple):
            return ended
        return totals(variant.name, played.scripts, ended, self.recording.sessions, open_loop=self.open_loop)

    def variables(self, script: Script, variant: Variant) -> tuple[Applied, ...]:
        """Return the environment variables of one process."""
        return recorded_settings.variables_of(self.recording.processes[script.process], variant.variables)

    def request(self, script: Script, variant: Variant, outputs: str = "") -> PlayRequest:
        """Return what one process plays."""
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
            open_loop=self.open_loop,
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

    def batched(self, played: Played) -> Played:
        """Return it with one call for calls of the same model that follow each other closely."""
        models = {index for index, base in self.bases.items() if has_free_batch(base.side.model.ir)}
        return replace(played, scripts=tuple(batched(script, models) for script in played.scripts))

    def _session(self, session: RecordedSession, variant: Variant, *, before: bool) -> PlayedSession:
        own = recorded_settings.settings_of(session)
        providers = recorded_settings.providers_of(session, self.runtime.offered)
        # As a hook does: requests that are equal in what the program asks share a session on the CPU.
        asked = (session.model, sorted(own.items()), [each.name for each in providers])
        if session.model in variant.providers:
            providers = recorded_settings.on_provider(variant.providers[session.model])
        on_cpu = {each.name for each in providers} <= {CPU.name, REMOTE.name}
        return PlayedSession(
            model=str(Path(variant.models.get(session.model, self.paths[session.model])).absolute()),
            applied=recorded_settings.applied({**own, **variant.settings}),
            providers=providers,
            shared=repr(asked) if variant.share and on_cpu and not session.inherited else "",
            before=before,
        )


def has_free_batch(model: ir.Model) -> bool:
    """Return whether all inputs and outputs of a model have the same dynamic first dimension."""
    shapes = [value.shape for value in (*feedable(model), *model.graph.outputs)]
    first = {shape[0] if shape is not None and len(shape) else None for shape in shapes}
    return len(first) == 1 and all(isinstance(size, ir.SymbolicDim) and size.value for size in first)


def find_models(recording: Recording, more: Sequence[Path]) -> dict[int, Path]:
    """Return the file of each model that is here, found by its sha256: where it was, or among further files.

    Args:
        recording: What was recorded.
        more: Files, and folders that are searched.
    """
    wanted: dict[str, list[int]] = {}
    for index, model in enumerate(recording.models):
        wanted.setdefault(model.sha256, []).append(index)  # one content may be a file here and bytes there
    wanted.pop("", None)
    sizes = {model.size_bytes for model in recording.models}
    was = (Path(model.path) for model in recording.models if model.path)
    found: dict[int, Path] = {}
    for path in itertools.chain(was, *map(_model_files, more)):
        try:
            if not files.is_file(path) or (all(sizes) and path.stat().st_size not in sizes):
                continue
            digest = hashlib.sha256(files.read(path)).hexdigest()
        except OSError:
            continue
        for index in wanted.get(digest, ()):
            found.setdefault(index, path)
    return found


def _model_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.rglob("*") if each.suffix in _MODEL_FILES)


def totals(
    name: str,
    scripts: Sequence[Script],
    ended: Sequence[PlayDone],
    sessions: Sequence[RecordedSession],
    *,
    open_loop: bool,
) -> Trial:
    """Return the totals of a play over its processes, and its times by model."""
    created: dict[int, list[int]] = {}
    called: dict[int, list[int]] = {}
    in_ort_ns = creating_ns = 0
    late: list[int] = []
    for script, done in zip(scripts, ended, strict=True):
        for step, took_ns, waited_ns, late_ns in zip(
            script.steps, done.took_ns, done.waited_ns, done.late_ns, strict=True
        ):
            model = sessions[script.sessions[step.session]].model
            in_ort_ns += took_ns
            if step.do == "create":
                created.setdefault(model, []).append(took_ns)
                creating_ns += took_ns
            elif step.do == "call":
                # From the intended start, which only an open loop has: there nobody waits for a late caller.
                called.setdefault(model, []).append(took_ns + waited_ns + late_ns * open_loop)
        late += done.late_ns
    peaks = [done.peak_bytes for done in ended]
    threads = [done.most_threads for done in ended]
    return Trial(
        play=AppPlay(
            variant=name,
            wall_ns=max(done.wall_ns for done in ended),
            in_ort_ns=in_ort_ns,
            creating_ns=creating_ns,
            cpu_ns=sum(done.cpu_ns for done in ended),
            own_cpu_ns=sum(done.own_cpu_ns for done in ended),
            late_ns=math.fsum(late) / len(late) if late else 0.0,
            peak_bytes=None if None in peaks else sum(peak or 0 for peak in peaks),
            most_threads=None if None in threads else sum(number or 0 for number in threads),
        ),
        details=Details(created_ns=created, called_ns=called),
    )
