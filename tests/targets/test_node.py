"""Models in Node.js: which onnxruntime-node runs, its event loop, and its options, which are those of ``load.mjs``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from target_trials import FEED, Trials, measured, model

from facts import facts
from ortune import launcher, targets
from ortune.bundle.languages.javascript import LANGUAGE, node_lines
from ortune.catalogue import knobs
from ortune.errors import RuntimeNotFound, UsageError
from ortune.inputs.feed_files import write_feeds
from ortune.measuring.sides import SideText, resolve
from ortune.records import (
    Applied,
    Plan,
    PlayedFeed,
    PlayedSession,
    PlayedStep,
    PlayRequest,
    Runtime,
    TrialError,
)
from ortune.runtimes import made, node, runtimes
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.machine import Machine
from ortune.targets.node.player import NodePlayer
from ortune.targets.node.process import RUNNER
from ortune.targets.playing import play
from ortune.targets.runner import run
from ortune.targets.task import Limits
from ortune.targets.turns import Turns
from ortune.verbs._shared import bundling
from ortune.verbs.compare.run import Options
from ortune.verbs.compare.run import run as compare

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
NODE = targets.find("node")
FOLDER = Path(sys.modules[targets.__name__].__file__ or "").parent / "node"


@pytest.fixture(scope="module")
def found() -> Any:
    try:
        return node.find()
    except RuntimeNotFound as error:
        pytest.skip(error.what)


@pytest.fixture
def runtime(found: Any) -> Runtime:
    return runtimes.find_runtime(sys.executable)


def test_a_release_in_a_recording_never_names_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = tmp_path / f"{node.PACKAGE}==x" / "node_modules" / node.PACKAGE
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"main": "index.js"}', "utf-8")
    (package / "index.js").write_text('require("fs").writeFileSync("ran", "")', "utf-8")
    assert node.named(package.parent.parent.name)  # one that the user names
    assert node.here("x") is None and not list(tmp_path.rglob("ran"))


def test_it_states_both_versions_and_what_the_install_script_would_bring(found: Any) -> None:
    assert found.version == node.VERSION and "cpu" in found.providers
    facts(found.called, "onnxruntime-node", node.VERSION, found.node_version)
    if sys.platform == "linux":
        assert set(found.lacks) <= {"cuda", "tensorrt"}
    bins = Path(found.folder) / "node_modules" / node.PACKAGE / "bin"
    assert len({place.parent.name for place in bins.glob("*/*/*")}) == 1  # of this system alone


def test_a_folder_of_the_users_own_is_named_by_its_path(found: Any, tmp_path: Path) -> None:
    for path in (found.folder, f"{found.folder}/node_modules/{node.PACKAGE}"):
        assert node.named(path) and node.find(path).version == found.version
    (tmp_path / "node_modules").mkdir()
    assert not node.named(str(tmp_path)) and not node.named("onnxruntime==1.30.0") and not node.named(None)


def test_a_package_that_does_not_load_is_an_error(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / node.PACKAGE
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"main": "nothing.js"}')
    with pytest.raises(RuntimeNotFound) as caught:
        node.find(str(tmp_path))
    facts(caught.value.what, "onnxruntime-node does not load", "Cannot find module")


def test_a_runtime_of_node_runs_the_target_node(found: Any, tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx")
    named = f"{node.PACKAGE}=={found.version}"
    assert made.find(named, print).build == found.called
    side = resolve(
        SideText(text=str(path), runtime=named), common=Plan(), scratch=tmp_path, browser=BrowserSetup()
    )
    assert side.plan.is_node and side.runtime.version_of(side.plan) == found.version
    side = resolve(
        SideText(text=str(path), target="node"), common=Plan(), scratch=tmp_path, browser=BrowserSetup()
    )
    assert side.runtime.node == found
    with pytest.raises(UsageError) as caught:
        resolve(SideText(text=str(path), runtime=named, target="openvino"), common=Plan(), scratch=tmp_path)
    facts(str(caught.value), "onnxruntime-node", "openvino", "--target node")


@pytest.mark.parametrize("thread", ["main", "worker"])
def test_a_run_holds_the_event_loop_of_its_own_thread_alone(
    runtime: Runtime, tmp_path: Path, thread: str
) -> None:
    trials = Trials(tmp_path, NODE, runtime)
    task = trials.task("a", model(tmp_path / "m.onnx"), {"node_thread": thread}, watched=True)
    (outcome,) = run([task], Machine(), Turns(runs=30, unmeasured=1, rounds=2)) or ()
    done = measured(outcome).done
    loop = done.event_loop
    assert loop is not None and loop.n_samples >= 2
    assert 0 < loop.p50_ns <= loop.p99_ns <= loop.max_ns
    assert [(item.knob, item.seen) for item in done.read_back] == [("node_thread", thread)]


SETTINGS: dict[str, str | int | bool] = {
    "intra_op_num_threads": 2, "inter_op_num_threads": 3, "execution_mode": "parallel",
    "graph_optimization_level": "extended", "enable_cpu_mem_arena": False, "enable_mem_pattern": False,
    "allow_spinning": False,
}  # fmt: skip


def test_the_options_of_a_session_are_those_of_load_mjs(found: Any, tmp_path: Path) -> None:
    """Every setting that the language knows reaches ``create`` as the code of a bundle passes it."""
    own = {
        name: knob
        for name, knob in knobs.all_knobs().items()
        if knob.channel in ("session_option", "session_config")
    }
    taken = {
        name: knob
        for name, knob in own.items()
        if knob.channel == "session_config" or knob.key in LANGUAGE.options
    }
    asked = [
        knob.applied(SETTINGS.get(name, next(iter(knob.choices or knob.tries), 1)))
        for name, knob in taken.items()
    ]
    told = json.dumps([{"channel": a.channel, "key": a.key, "value": a.value} for a in asked])
    script = f"""
        import {{ sessionOptions }} from {json.dumps((FOLDER / RUNNER).as_uri())};
        console.log(JSON.stringify(sessionOptions({told})));
    """
    done = subprocess.run(
        [found.program, "--input-type=module", "-e", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    options = json.loads(done.stdout)
    assert options.pop("executionProviders") == ["cpu"]
    extra = options.pop("extra")
    entries = {f"{group}.{key}": value for group, keys in extra.items() for key, value in keys.items()}
    assert entries == {
        a.key: str(int(a.value) if isinstance(a.value, bool) else a.value)
        for a in asked
        if a.channel == "session_config"
    }
    written = {}
    for setting in asked:
        if setting.channel == "session_option":
            value = (
                LANGUAGE.words[str(setting.value)]
                if isinstance(setting.value, str)
                else json.dumps(setting.value)
            )
            name, _, text = LANGUAGE.options[setting.key].format(value).partition(": ")
            written[name] = json.loads(text)
    assert options == written and len(written) == len(LANGUAGE.options)


def test_the_objective_of_an_event_loop_needs_one(tmp_path: Path) -> None:
    options = Options(
        a=str(model(tmp_path / "m.onnx")), b_set=("intra=1",), objective="event-loop", budget="1s", no_why=True,
        store=tmp_path / "store",
    )  # fmt: skip
    with pytest.raises(UsageError, match=r"applies to Node\.js"):
        compare(options)


def test_python_and_node_are_compared_in_one_block(found: Any, tmp_path: Path) -> None:
    options = Options(
        a=str(model(tmp_path / "m.onnx")), b_target="node", budget="1s", no_why=True, store=tmp_path / "store"
    )
    result = compare(options).result
    assert result.outputs.ok and result.base.runtime.node is None
    assert result.new.runtime.node == found


def test_what_was_tuned_in_node_is_what_load_mjs_loads(found: Any, tmp_path: Path) -> None:
    """The plan of a bundle is the CPU's: the lines to paste and ``load.mjs`` have the measured options."""
    plan = Plan(
        settings={"intra_op_num_threads": 1, "allow_spinning": False, "graph_optimization_level": "basic"},
        providers=NODE.providers,
    )
    shipped = bundling._loadable(plan)
    assert not shipped.providers and shipped.settings == plan.settings
    assert bundling._loadable(Plan()) == Plan()
    with pytest.raises(UsageError):
        bundling._loadable(msgspec.structs.replace(plan, settings={"node_thread": "worker"}))
    text = node_lines(plan, "m.onnx").replace('"onnxruntime-node"', json.dumps(f"{tmp_path}/ort.mjs"))
    (tmp_path / "ort.mjs").write_text(
        "export default { InferenceSession: { create: (...all) => console.log(JSON.stringify(all)) } };"
    )
    done = subprocess.run(
        [found.program, "--input-type=module", "-e", text], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [
        "m.onnx",
        {
            "graphOptimizationLevel": "basic",
            "intraOpNumThreads": 1,
            "extra": {"session": {"intra_op.allow_spinning": "0"}},
        },
    ]


def played(
    path: Path, outputs: Path, steps: list[tuple[int, str, int, int, int]], **more: Any
) -> PlayRequest:
    applied = tuple(knobs.find(name).applied(value) for name, value in {"intra_op_num_threads": 3}.items())
    sessions = (PlayedSession(model=str(path), applied=applied), PlayedSession(model=str(path), before=True))
    return PlayRequest(
        sessions=sessions,
        feeds=(PlayedFeed(path=str(outputs.parent / "feed")),),
        steps=tuple(
            PlayedStep(thread=thread, do=do, session=session, feed=feed, at_ns=at_ns)  # type: ignore[arg-type]
            for thread, do, session, feed, at_ns in steps
        ),
        outputs_path=str(outputs),
        **more,
    )


@pytest.mark.parametrize("open_loop", [False, True])
def test_the_steps_of_an_application_are_played(
    found: Any, runtime: Runtime, tmp_path: Path, open_loop: bool
) -> None:
    path = model(tmp_path / "m.onnx")
    write_feeds(tmp_path / "feed", {"x": FEED})
    ms = 1_000_000
    steps = [
        (0, "create", 0, -1, 0), (0, "call", 0, 0, 20 * ms), (0, "call", 1, 0, 40 * ms), (0, "close", 0, -1, 60 * ms),
    ]  # fmt: skip
    request = played(path, tmp_path / "outputs", steps, open_loop=open_loop)
    in_node = msgspec.structs.replace(runtime, node=found)
    ended = play([request], [()], in_node, tmp_path / "play", tmp_path, Limits())
    assert isinstance(ended, tuple), ended
    (done,) = ended
    assert done.ort_version == found.version
    assert len(done.took_ns) == len(done.late_ns) == len(done.waited_ns) == 4
    assert all(took_ns > 0 for took_ns in done.took_ns)
    assert done.wall_ns >= (60 if open_loop else 120) * ms
    assert done.cpu_ns > 0 <= done.own_cpu_ns
    assert done.peak_bytes is None or done.peak_bytes > (done.base_bytes or 0) > 0
    index = json.loads((tmp_path / "outputs" / "0" / "outputs.json").read_text())
    assert [each["kind"] for each in index["outputs"]] == ["tensor"]


def test_what_node_cannot_play_is_said(found: Any, runtime: Runtime, tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx")
    in_node = msgspec.structs.replace(runtime, node=found)
    request = played(path, tmp_path / "outputs", [(0, "create", 0, -1, 0), (1, "create", 1, -1, 0)])
    request = msgspec.structs.replace(request, feeds=())
    error = play([request], [()], in_node, tmp_path / "play", tmp_path, Limits())
    assert isinstance(error, TrialError)
    facts(error.what, "several threads", "Node.js")


def test_cpus_that_the_system_refuses_end_the_process_with_the_reason(tmp_path: Path) -> None:
    player = NodePlayer(Runtime(python=sys.executable), tmp_path, tmp_path, Limits())
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-c", "input()"]
        player.child = launcher.Child(command, environment={}, folder=tmp_path, log=log)
    affinity = Applied(knob="cpus", channel="process", key="affinity", value="1000000")
    player.send(PlayRequest(sessions=(), feeds=(), steps=(), applied=(affinity,)))
    assert isinstance(player.end, TrialError) and player.end.reason == "not-applied"
    assert player.child.ended_within(10.0) is not None
