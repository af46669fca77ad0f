"""``ortune tune app.workload``: what is tried, what is kept, and the bundle; the times are drawn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest

from facts import facts
from onnx_text import model_of
from ortune import files, monotonic
from ortune.bundle import app
from ortune.graph.model.open import open_model
from ortune.inputs.played import ReplayPart
from ortune.measuring.application import Application, Variant
from ortune.measuring.play_totals import PlayTimes, PlayTrial
from ortune.records import (
    AppPlay,
    Arrival,
    RecordedCalls,
    RecordedInput,
    RecordedModel,
    RecordedProcess,
    RecordedSession,
    RecordedWorkload,
    Recording,
    TrialError,
)
from ortune.targets.machine import Machine
from ortune.verbs._app_tune import search
from ortune.verbs._app_tune.result import AppTuneResult
from within import program

MS = 1_000_000
VARIABLE = "ORT_INTRA_OP_NUM_THREADS"


@pytest.fixture(scope="module", autouse=True)
def own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORTUNE_LOCK", str(tmp_path_factory.mktemp("lock") / "lock"))
        yield


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with a session per call."""
    folder = tmp_path_factory.mktemp("app")
    onnx.save(model_of("g (float[n,3] x) => (float[n,3] y) { y = Relu (x) }"), folder / "m.onnx")
    sessions = tuple(
        RecordedSession(
            id=i + 1, process=0, model=0, start_ns=10 * i * MS, creation_ns=2 * MS,
            calls=(RecordedCalls(key=i, count=1, inputs=(RecordedInput(name="x", shape=(1, 3)),)),),
        )
        for i in range(3)
    )  # fmt: skip
    arrivals = tuple(
        Arrival(key=i, start_ns=(10 * i + 5) * MS, took_ns=MS, thread=0, active=1) for i in range(3)
    )
    recording = Recording(
        command=("python", "app.py"),
        processes=(RecordedProcess(pid=1, python="3.11.7", onnxruntime="1.32.0", arrivals=arrivals),),
        sessions=sessions,
        models=(
            RecordedModel(
                path=str(folder / "m.onnx"),
                sha256=open_model(folder / "m.onnx").sha256,
                size_bytes=(folder / "m.onnx").stat().st_size,
            ),
        ),
    )
    files.write(folder / "app.workload", msgspec.json.encode(RecordedWorkload(cases=(), recording=recording)))
    return folder / "app.workload"


class Lab:
    """Draws what plays take: a factor for sharing, and one for a single thread."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        *,
        share: float = 1.0,
        one: float = 1.0,
        others: float = 0.0,
        arrays: float = 1.0,
        rewritten: float = 1.0,
        placed: float = 1.0,
    ) -> None:
        self.rewritten, self.placed = rewritten, placed
        self.stops_after = self.n_plays = 0
        self.share, self.one, self.arrays, self.rng = share, one, arrays, np.random.default_rng(1)
        self.failing = ""
        patch.setattr(Application, "play", self.play)
        patch.setattr(Machine, "taken_cpus", lambda *_: others)
        monkey_cpus(patch)

    def play(
        self, played: ReplayPart, variant: Variant, outputs: Path | None = None
    ) -> PlayTrial | TrialError:
        del outputs
        self.n_plays += 1
        if self.n_plays == self.stops_after:
            raise KeyboardInterrupt
        if self.failing in variant.settings:
            return TrialError(reason="run-error", what="drawn")
        factor = self.share if variant.share else 1.0
        factor *= self.arrays if variant.forms else 1.0
        one = variant.settings.get("intra_op_num_threads") == 1 or variant.variables.get(VARIABLE) == "1"
        factor *= self.one if one else 1.0
        factor *= self.rewritten if variant.models else 1.0
        factor *= self.placed if variant.providers else 1.0
        cpu, wall = (int(1e9 * factor * np.exp(0.01 * self.rng.standard_normal())) for _ in range(2))
        play = AppPlay(
            variant=variant.name, wall_ns=wall, in_ort_ns=wall, creating_ns=1, cpu_ns=cpu, peak_bytes=100 * MS,
            **self.load(played, variant),
        )  # fmt: skip
        return PlayTrial(play=play, details=PlayTimes(created_ns={}, called_ns={}))

    def load(self, played: ReplayPart, variant: Variant) -> dict[str, Any]:
        """Nothing, as for calls without given times."""
        del played, variant
        return {}


class LoadedLab(Lab):
    """Its calls start at given times, perhaps late; a shared session takes its factor off the queue alone.

    Attributes:
        times: Start times of the calls of each play.
    """

    def __init__(self, patch: pytest.MonkeyPatch, *, queue: float = 1.0, late: float = 0.0) -> None:
        super().__init__(patch)
        self.queue, self.late, self.times = queue, late, list[tuple[int, ...]]()

    def load(self, played: ReplayPart, variant: Variant) -> dict[str, Any]:
        calls = (step.at_ns for script in played.scripts for step in script.steps if step.do == "call")
        self.times.append(tuple(calls))
        factor = self.queue if variant.share else 1.0
        latency_ns = int(1e9 * factor * np.exp(0.01 * self.rng.standard_normal()))
        return {"latency_ns": latency_ns, "late_share": self.late, "offered_share": 1.4 * factor}


class SlowLab(Lab):
    """Its plays take time on a simulated clock: their start and their part; those of the stages take longer."""

    def __init__(self, patch: pytest.MonkeyPatch, **factors: float) -> None:
        super().__init__(patch, **factors)
        self.clock_s, self.spans_s = 1e6, list[float]()
        patch.setattr(monotonic, "now_s", lambda: self.clock_s)
        patch.setattr(monotonic, "now_ns", lambda: round(1e9 * self.clock_s))

    def play(
        self, played: ReplayPart, variant: Variant, outputs: Path | None = None
    ) -> PlayTrial | TrialError:
        self.spans_s.append(played.span_ns / 1e9)
        slower = 2.5 if 2 <= self.n_plays < 16 else 1
        self.clock_s += slower * (0.5 + self.spans_s[-1])
        trial = super().play(played, variant, outputs)
        if isinstance(trial, TrialError):
            return trial
        wall_ns = round(1e9 * slower * self.spans_s[-1])
        return PlayTrial(play=msgspec.structs.replace(trial.play, wall_ns=wall_ns), details=trial.details)


def monkey_cpus(patch: pytest.MonkeyPatch) -> None:
    seen = Machine.trial_host.func  # type: ignore[attr-defined]
    patch.setattr(
        Machine, "trial_host", property(lambda self: msgspec.structs.replace(seen(self), effective_cpus=4))
    )


def tuned(workload: Path, folder: Path, *more: str) -> AppTuneResult:
    words = ("tune", str(workload), "--output", str(folder), "--store", str(folder / "store"))
    code, out, said = program([*words, *more, "--json"])
    assert code == 0, said
    document = json.loads(out)
    assert document["schema"] == "ortune/app-tune/1"
    return msgspec.convert(document["result"], AppTuneResult)


def test_sharing_and_a_smaller_pool_are_confirmed_together_and_written(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab(monkeypatch, share=0.5, one=0.8)
    result = tuned(workload, tmp_path)
    assert (result.verdict, result.share, result.settings) == ("faster", True, {"intra_op_num_threads": 1})
    assert [each.status for each in result.candidates] == ["kept", "kept", *3 * ["dropped"]]
    confirmed = result.confirmation
    assert confirmed is not None and confirmed.same_ok
    assert confirmed.cpu.value == pytest.approx(0.4, rel=0.02)
    facts(result.headline, "one session for equal requests", "intra_op_num_threads=1", "x0.40")
    bundle = app.read(Path(result.bundle))
    (session,) = bundle.sessions
    assert session.share and session.settings == {"intra_op_num_threads": "min(1, cpus)"}
    assert session.sha256 == (open_model(workload.with_name("m.onnx")).sha256,)
    assert Path(result.bundle).name == "app.ortune"
    code, out, said = program(["report", result.session, "--store", str(tmp_path / "store")])
    assert code == 0, said
    facts(out, "ortune run --with", "python app.py")


def changed(workload: Path, folder: Path, **of_input: object) -> Path:
    """The recording with other inputs."""
    saved = msgspec.json.decode(workload.read_bytes(), type=RecordedWorkload)
    assert saved.recording is not None
    sessions = []
    for session in saved.recording.sessions:
        (calls,) = session.calls
        inputs = tuple(msgspec.structs.replace(value, **of_input) for value in calls.inputs)
        sessions.append(
            msgspec.structs.replace(session, calls=(msgspec.structs.replace(calls, inputs=inputs),))
        )
    recording = msgspec.structs.replace(saved.recording, sessions=tuple(sessions))
    files.write(folder / "app.workload", msgspec.json.encode(RecordedWorkload(cases=(), recording=recording)))
    return folder / "app.workload"


@pytest.mark.parametrize("gain", [0.7, 1.0])
def test_lists_are_a_finding_with_their_gain_or_none(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gain: float
) -> None:
    Lab(monkeypatch, arrays=gain)
    result = tuned(changed(workload, tmp_path, dtype="list of float"), tmp_path)
    (form,) = [each for each in result.candidates if each.form]
    assert (form.form, form.status) == ("lists", "confirmed" if gain < 1 else "dropped")
    assert [finding.code for finding in result.findings] == (["APP012"] if gain < 1 else [])
    assert (result.verdict, result.bundle) == ("not-shown", "")
    if gain < 1:
        facts(result.headline, "lists", "30 %")
        facts(result.findings[0].evidence, "x0.70", "6 blocks")


def test_a_pool_is_a_finding_only_if_its_gain_is_confirmed(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab(monkeypatch, share=0.5, one=0.8)
    result = tuned(workload, tmp_path)
    (finding,) = result.findings
    assert (finding.code, finding.fix) == ("APP010", "set intra_op_num_threads=1")
    facts(finding.what, "with shared sessions", "60 %")


def with_recorded(workload: Path, folder: Path, version: str, model: str = "") -> Path:
    """The recording with one session of an ONNX Runtime of this version, perhaps of another model."""
    saved = msgspec.json.decode(workload.read_bytes(), type=RecordedWorkload)
    assert saved.recording is not None
    recording = saved.recording
    models = recording.models
    if model:
        onnx.save(model_of(model), folder / "m.onnx")
        size, sha256 = (folder / "m.onnx").stat().st_size, open_model(folder / "m.onnx").sha256
        models = (RecordedModel(path=str(folder / "m.onnx"), sha256=sha256, size_bytes=size),)
    first = recording.sessions[0]
    calls = (msgspec.structs.replace(first.calls[0], count=3, total_ns=3 * MS),)
    arrivals = tuple(
        msgspec.structs.replace(call, key=first.calls[0].key) for call in recording.processes[0].arrivals
    )
    process = msgspec.structs.replace(recording.processes[0], onnxruntime=version, arrivals=arrivals)
    changed = msgspec.structs.replace(
        recording,
        models=models,
        processes=(process,),
        sessions=(msgspec.structs.replace(first, calls=calls),),
    )
    files.write(folder / "app.workload", msgspec.json.encode(RecordedWorkload(cases=(), recording=changed)))
    return folder / "app.workload"


@pytest.mark.parametrize("version", ["1.32.0", "1.20.0"])
def test_a_number_of_threads_alone_is_a_line_of_the_dockerfile_where_the_variable_is_known(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    Lab(monkeypatch, one=0.7)
    result = tuned(with_recorded(workload, tmp_path, version), tmp_path)
    assert result.verdict == "faster"
    bundle = app.read(Path(result.bundle))
    if version == "1.32.0":
        assert (result.variables, bundle.variables, bundle.sessions) == ({VARIABLE: "1"}, {VARIABLE: "1"}, ())
        _, out, _ = program(["report", result.session, "--store", str(tmp_path / "store")])
        facts(out, f"ENV {VARIABLE}=1")
    else:
        assert (result.variables, bundle.variables) == ({}, {})
        assert bundle.sessions[0].settings == {"intra_op_num_threads": "min(1, cpus)"}
    assert [finding.code for finding in result.findings] == ["APP010"]
    told = " ".join(result.notes)
    assert ("recorded with ONNX Runtime 1.20.0" in told) == (version == "1.20.0")


def test_a_session_that_takes_seconds_to_create_is_played_with_its_calls(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab(monkeypatch, one=0.7)
    path = with_recorded(workload, tmp_path, "1.32.0")
    recording = msgspec.json.decode(path.read_bytes(), type=RecordedWorkload).recording
    assert recording is not None
    (session,), (process,) = recording.sessions, recording.processes
    late = tuple(msgspec.structs.replace(a, start_ns=a.start_ns + 3_000 * MS) for a in process.arrivals)
    slow = msgspec.structs.replace(
        recording,
        sessions=(msgspec.structs.replace(session, creation_ns=3_000 * MS),),
        processes=(msgspec.structs.replace(process, arrivals=late),),
    )
    files.write(path, msgspec.json.encode(RecordedWorkload(cases=(), recording=slow)))
    assert tuned(path, tmp_path, "--no-bundle").played.calls == 3


def test_a_part_is_shortened_if_the_stages_left_too_little_time_to_confirm(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = with_recorded(workload, tmp_path, "1.32.0")
    recording = msgspec.json.decode(path.read_bytes(), type=RecordedWorkload).recording
    assert recording is not None
    process = recording.processes[0]
    call = process.arrivals[0]
    arrivals = tuple(msgspec.structs.replace(call, start_ns=(5 + 50 * i) * MS) for i in range(600))
    long = msgspec.structs.replace(
        recording, processes=(msgspec.structs.replace(process, arrivals=arrivals),)
    )
    files.write(path, msgspec.json.encode(RecordedWorkload(cases=(), recording=long)))
    lab = SlowLab(monkeypatch, one=0.7)
    result = tuned(path, tmp_path, "--no-bundle", "--budget", "150s")
    assert (result.verdict, result.confirmation is not None) == ("faster", True), result.headline
    assert lab.spans_s[2] > 2 * lab.spans_s[-1] > 0.4
    assert result.elapsed_s <= 160
    assert 5 <= result.played.calls < 600


CHAIN = "g (float[n,3] x) => (float[n,3] y) { a = Relu (x) b = Relu (x) c = Add (a, b) d = Identity (c) y = Neg (d) }"


def test_a_rewritten_model_is_in_the_bundle_and_guarded_by_its_shape(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab(monkeypatch, rewritten=0.6)
    result = tuned(with_recorded(workload, tmp_path, "1.32.0", CHAIN), tmp_path)
    assert result.verdict == "faster", result.candidates
    (model,) = result.models
    bundle = app.read(Path(result.bundle))
    (session,) = bundle.sessions
    placed = Path(result.bundle) / session.replacement
    assert hashlib.sha256(placed.read_bytes()).hexdigest() == session.replacement_sha256
    assert session.sha256 == (open_model(tmp_path / "m.onnx").sha256,)
    facts(result.headline, "m.onnx rewritten")
    tried = {each.rewrites for each in result.candidates if each.model}
    assert ("fixed-dimensions",) in tried
    if model.guarded:
        assert session.only_shapes == ((RecordedInput(name="x", shape=(1, 3)),),)
        assert [(value.name, value.type, value.shape) for value in session.inputs] == [
            ("x", "tensor(float)", ("n", 3))
        ]


def test_without_a_gain_nothing_is_written(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab(monkeypatch)
    result = tuned(workload, tmp_path)
    assert (result.verdict, result.bundle, result.confirmation) == ("not-shown", "", None)
    assert not (tmp_path / "app.ortune").exists()


def test_an_application_that_does_all_right_has_nothing_to_try(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab(monkeypatch, share=0.5)
    recording = msgspec.json.decode(workload.read_bytes(), type=RecordedWorkload).recording
    assert recording is not None
    session = msgspec.structs.replace(recording.sessions[0], options={"intra_op_num_threads": 1})
    right = msgspec.structs.replace(recording, sessions=(session,))
    files.write(tmp_path / "app.workload", msgspec.json.encode(RecordedWorkload(cases=(), recording=right)))
    result = tuned(tmp_path / "app.workload", tmp_path)
    assert (result.verdict, result.candidates, result.enough_s) == ("nothing-tested", (), 0)
    facts(result.headline, "nothing to try")


def test_next_to_other_programs_cpu_time_decides(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab(monkeypatch, share=0.5, others=3.0)
    result = tuned(workload, tmp_path, "--no-bundle")
    assert result.busy and result.verdict == "faster"
    assert "time in ONNX Runtime" not in result.headline


def test_a_change_that_fails_is_told_and_the_others_go_on(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch, share=0.5)
    lab.failing = "allow_spinning"
    result = tuned(workload, tmp_path, "--no-bundle")
    assert result.verdict == "faster"
    assert [each.why for each in result.candidates if each.status == "failed"] == ["drawn", "drawn"]


def test_only_settings_are_tried_in_a_program_that_is_not_python(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab(monkeypatch, share=0.5, one=0.8, rewritten=0.6)
    recording = msgspec.json.decode(workload.read_bytes(), type=RecordedWorkload).recording
    assert recording is not None
    other = tuple(msgspec.structs.replace(process, python="") for process in recording.processes)
    changed = msgspec.structs.replace(recording, processes=other)
    files.write(tmp_path / "app.workload", msgspec.json.encode(RecordedWorkload(cases=(), recording=changed)))
    result = tuned(tmp_path / "app.workload", tmp_path)
    assert not any(each.share or each.model for each in result.candidates)
    assert (result.verdict, result.variables) == ("faster", {VARIABLE: "1"})
    facts(" ".join(result.notes), "not Python", "played with")


def test_an_execution_provider_is_in_the_bundle(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab(monkeypatch, placed=0.5)
    monkeypatch.setattr(search, "usable_providers", lambda _: ["OpenVINOExecutionProvider"])
    result = tuned(with_recorded(workload, tmp_path, "1.32.0"), tmp_path)
    assert result.verdict == "faster", result.candidates
    assert result.providers == {"m.onnx": "OpenVINOExecutionProvider"}
    facts(result.headline, "m.onnx on OpenVINO", "x0.50")
    bundle = app.read(Path(result.bundle))
    (change,), _ = app.changes(Path(result.bundle), bundle)
    assert change.providers == (
        ("OpenVINOExecutionProvider", {}), ("CPUExecutionProvider", {})
    )  # fmt: skip


def test_a_session_that_was_cut_off_goes_on(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch, share=0.5, one=0.8)
    whole = tuned(workload, tmp_path / "whole", "--no-bundle")
    n_whole, lab.n_plays = lab.n_plays, 0
    lab.stops_after = n_whole - 5
    folder = tmp_path / "cut"
    words = ("--output", str(folder), "--store", str(folder / "store"), "--no-bundle")
    code, _, _ = program(["tune", str(workload), *words])
    assert code == 130
    lab.n_plays = lab.stops_after = 0
    resumed = tuned(workload, folder, "--no-bundle", "--resume")
    assert 5 < lab.n_plays < 10  # the block that was cut off, and those after it
    assert (resumed.verdict, resumed.n_plays) == ("faster", whole.n_plays)
    assert [each.settings for each in resumed.candidates] == [each.settings for each in whole.candidates]
    facts(" ".join(resumed.notes), "resumed")


def test_current_settings_are_the_baseline(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab(monkeypatch, share=0.5, one=0.8)
    result = tuned(workload, tmp_path, "--current", "intra=1")
    assert (result.verdict, result.current) == ("faster", {"intra_op_num_threads": 1})
    assert [each.settings for each in result.candidates] == [{}]
    facts(result.headline, "one session for equal requests", "x0.50")
    assert "intra_op_num_threads" not in result.headline
    (session,) = app.read(Path(result.bundle)).sessions
    assert session.settings == {"intra_op_num_threads": "min(1, cpus)"}


def test_current_of_a_recording_is_settings_of_sessions(workload: Path) -> None:
    code, _, said = program(["tune", str(workload), "--current", "threads_env=1"])
    assert code == 2 and "--current" in said


def test_at_a_given_rate_the_latency_from_the_intended_start_counts(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = LoadedLab(monkeypatch, queue=0.5)
    result = tuned(workload, tmp_path, "--rate", "50/s", "--arrival", "gamma:2")
    assert (result.verdict, result.share) == ("faster", True), result.headline
    assert (result.arrival, result.rate_per_s, result.played.open_loop) == ("gamma:2", 50, True)
    facts(result.headline, "latency", "x0.50")
    _, out, _ = program(["report", result.session, "--store", str(tmp_path / "store"), "--verbose"])
    facts(out, "cannot be served with the recorded settings", "with the changes it can", "50/s, gamma 2")
    assert all(len(times) == 3 for times in lab.times)
    # Both plays of a block have the same times, and no other block has them.
    pilot, *stage = lab.times[1:6]
    assert stage[0] == stage[1] != stage[2] == stage[3] and pilot not in stage


def test_calls_that_the_generator_starts_too_late_leave_no_answer(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LoadedLab(monkeypatch, queue=0.5, late=0.2)
    result = tuned(workload, tmp_path, "--rate", "50/s")
    assert (result.verdict, result.bundle, result.findings) == ("generator", "", ())
    facts(result.headline, "no answer", "20 %", "--rate")


def test_the_rate_of_a_single_model_is_no_option_of_tune(workload: Path) -> None:
    code, _, said = program(["tune", str(workload.with_name("m.onnx")), "--rate", "5/s"])
    assert code == 2
    facts(said, "--rate", "recording", "ortune bench")
    code, _, said = program(["tune", str(workload), "--arrival", "poisson"])
    assert code == 2 and "--arrival" in said


@pytest.mark.parametrize("words", [("--objective", "p95"), ("--callers", "2")])
def test_options_of_one_model_do_not_apply(words: tuple[str, ...], workload: Path) -> None:
    code, _, said = program(["tune", str(workload), *words])
    assert code == 2 and words[0] in said
