"""Every setting: described whole, consistent with the others, and read back from a real session."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from onnx_text import assemble
from ortune import platform
from ortune.catalogue import files, knobs, providers
from ortune.catalogue.facts import ModelFacts
from ortune.catalogue.knob import Applies, Knob
from ortune.errors import UsageError
from ortune.inputs import feed_files
from ortune.measuring.executor import Arm, Executor, Timing
from ortune.measuring.plans import canonical
from ortune.records import (
    Case,
    FeedRef,
    InputChoice,
    Measured,
    Plan,
    ProviderSpec,
    ReadBackLevel,
    Runtime,
    Value,
    Workload,
    assignment,
)
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.targets.task import Limits

HEADINGS = (
    "What it is:", "Why it costs:", "Evidence:", "Fix and its safety:", "Example:", "References:",
)  # fmt: skip


KNOBS = list(knobs.all_knobs().values())
every_row = pytest.mark.parametrize("knob", knobs.rows().values(), ids=lambda knob: knob.name)


def sample(knob: Knob) -> Value:
    """A value that differs from the default, as a user may give it."""
    if knob.kind == "bool":
        return not knob.default.startswith("on")
    if knob.kind == "int":
        return max(2, knob.minimum or 0)
    if knob.channel == "preload":
        return next((name for name in knob.choices if platform.allocator_library(name)), knob.choices[0])
    if not knob.choices:
        return next(iter(knobs.parse_settings(example(knob)).values()))
    return next(choice for choice in knob.choices if choice != knob.default)


def example(knob: Knob) -> list[str]:
    """Every ``KNOB=VALUE`` of the documentation's example."""
    text = knob.documentation.partition("Example:")[2].partition("References:")[0]
    words = re.findall(r"--set\s+('[^'`]+'|[^\s`]+)", text)
    return [word.strip("'") for word in words]


def expected_level(knob: Knob) -> ReadBackLevel:
    """How far the knob claims to be read back where the system lets it be seen."""
    if knob.probe:
        return "effect"
    echoed = ("session_option", "session_config", "run_config", "env", "env_allocator")
    return "echo" if knob.channel in echoed else "none"


def context(knob: Knob) -> dict[str, Value]:
    """What must be set too for the knob to be seen at work."""
    settings = knobs.parse_settings(list(knob.needs))
    if knob.name == "inter_op_num_threads":
        settings["intra_op_num_threads"] = 1  # else the threads of the two pools cannot be told apart
    return settings


@every_row
def test_headings_are_there_in_order(knob: Knob) -> None:
    title, _, text = knob.documentation.partition("\n\n")
    assert title.endswith(".") and "\n" not in title, "the documentation begins with one sentence in one line"
    found = [line for line in text.splitlines() if not line.startswith("    ")]
    assert [line.partition(": ")[0] + ":" for line in found] == list(HEADINGS)
    assert all(line == line.rstrip() and len(line) <= 120 for line in knob.documentation.splitlines())


@every_row
def test_the_condition_of_a_row_can_be_asked(knob: Knob) -> None:
    model = ModelFacts(operators={"Relu": 1}, n_nodes=1)
    assert type(knob.applies.holds(model)) is bool
    assert not (knob.worth and (knob.tries or knob.applies != Applies())), (
        "worth is in the place of the others"
    )
    assert (knob.prior > 0) <= bool(knob.tries), "a prior is of values to try"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("chanel", "env", "chanel"),
        ("kind", "number", "number"),
        ("prior", "always", "prior"),
        ("applies", {"fact": "huge"}, "huge"),
        ("minimum", "1", "minimum"),
    ],
)
def test_a_row_that_is_wrong_is_named(
    field: str, value: object, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"documentation": "Wrong.", "channel": "env", "key": "WRONG", "kind": "int", "default": "0"}
    row |= {"summary": "wrong", field: value}  # type: ignore[dict-item]
    monkeypatch.setattr(knobs, "setting_tables", lambda: {"cpu": {"general": {"wrong_thing": row}}})
    with pytest.raises(ValueError, match=rf"cpu\.toml: wrong_thing: .*{said}"):
        list(knobs._read())


@every_row
def test_a_setting_of_an_untested_provider_says_so(knob: Knob) -> None:
    provider = knob.provider
    never = bool(provider) and providers.find(provider).untested
    sentence = "Untested by ortune."
    said = sentence in " ".join(knob.documentation.split())
    assert said == never, (
        f"only settings of providers with untested = true are documented with {sentence!r}; this one is of {provider!r}"
    )


@every_row
def test_the_example_is_accepted(knob: Knob) -> None:
    settings = knobs.parse_settings(example(knob))
    assert knob.name in settings and len(settings) == len(example(knob))


def test_names_and_aliases_are_unique() -> None:
    names = Counter(name for knob in KNOBS for name in (knob.name, *knob.aliases))
    assert [name for name, count in names.items() if count > 1] == []
    keys = Counter((knob.channel, knob.provider, knob.key) for knob in KNOBS)
    assert [key for key, count in keys.items() if count > 1] == []


def test_a_name_is_in_one_row() -> None:
    names = Counter(
        name for table in files.setting_tables().values() for rows in table.values() for name in rows
    )
    assert [name for name, count in names.items() if count > 1] == []
    assert list(knobs.all_knobs()) == sorted(names)


def test_options_of_a_provider_name_it() -> None:
    assert all(knob.provider for knob in KNOBS if knob.channel == "provider_option")


def test_a_conflict_is_written_once_and_known_to_both() -> None:
    by_name = knobs.all_knobs()
    said = [frozenset((name, other)) for name, knob in knobs.rows().items() for other in knob.conflicts]
    assert len(said) == len(set(said))
    for knob in KNOBS:
        assert knob.name not in knob.conflicts
        for other in knob.conflicts:
            assert knob.name in by_name[other].conflicts


@pytest.mark.parametrize("knob", KNOBS, ids=lambda k: k.name)
def test_values_are_checked(knob: Knob) -> None:
    value = sample(knob)
    text = str(int(value)) if isinstance(value, bool) else str(value)
    assert knobs.parse_value(knob, text) == value
    assert type(knobs.parse_value(knob, text)) is type(value)
    assert set(knob.spelled) <= set(knob.choices)
    if knob.kind != "text":
        with pytest.raises(UsageError, match=knob.name):
            knobs.parse_value(knob, "no-such-value")
    if knob.minimum is not None:
        with pytest.raises(UsageError, match=knob.name):
            knobs.parse_value(knob, str(knob.minimum - 1))


def test_a_near_miss_is_told() -> None:
    with pytest.raises(UsageError) as caught:
        knobs.find("intra_op_num_thread")
    assert caught.value.do.startswith("did you mean intra_op_num_threads, ")


def write_model(path: Path) -> None:
    """y = relu(x @ w) for each row: enough that every setting has something to act on."""
    onnx.save(
        assemble(
            [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
            "float[rows,32] x",
            "float[rows,32] y",
            {"w": np.eye(32, dtype=np.float32)},
            opset=13,
        ),
        path,
    )


@pytest.fixture
def executor(tmp_path: Path) -> Executor:
    """Runs trials of one small model, quickly."""
    choice = InputChoice(name="x", dtype="float", shape=(32, 32))
    workload = Workload(cases=(Case(name="all", inputs=(choice,)),))
    executor = Executor({}, workload, tmp_path, SessionLog(None, ""), Machine())
    executor.timing = Timing(runs=3, warmup_runs=1, warmup_ns=0)
    executor.limits = Limits(load_s=60, run_s=60)
    return executor


def trial(executor: Executor, folder: Path, plan: Plan) -> Measured:
    """One trial of the plan that must not fail."""

    write_model(folder / "m.onnx")
    feed_files.write_feeds(folder / "feeds", {"x": np.eye(32, dtype=np.float32)})
    arm = Arm(
        name="new",
        plan=plan,
        model=folder / "m.onnx",
        runtime=Runtime(python=sys.executable, ort_version=onnxruntime.__version__),
        feeds=(FeedRef(name="all", path=str(folder / "feeds")),),
    )
    outcome = executor.trial(arm)
    assert isinstance(outcome, Measured), outcome
    return outcome


def together() -> list[list[Knob]]:
    """Settings that one session can have: all that are only echoed and do not conflict; others have one each."""
    groups: list[list[Knob]] = []
    # A provider's own, and a browser's, are tried where they are: in the conformance suite of targets.
    here = [
        k
        for k in KNOBS
        if not (k.provider or k.is_only_in_browsers or knobs.why_too_old(k, onnxruntime.__version__))
    ]
    for knob in here:
        alone = knob.probe or knob.needs or knob.channel == "preload"
        fitting = (
            group for group in groups
            if not any(k.probe or k.needs or k.channel == "preload" or k.name in knob.conflicts for k in group)
        )  # fmt: skip
        group = None if alone else next(fitting, None)
        if group is None:
            groups.append([knob])
        else:
            group.append(knob)
    return groups


@pytest.mark.parametrize("group", together(), ids=lambda group: "+".join(k.name for k in group))
def test_the_value_reaches_the_session(group: list[Knob], executor: Executor, tmp_path: Path) -> None:
    settings: dict[str, Value] = {}
    for knob in group:
        value = sample(knob)
        if knob.channel == "preload" and not platform.allocator_library(str(value)):
            pytest.skip(f"none of {', '.join(knob.choices)} is installed")
        settings |= {**context(knob), knob.name: value}
    done = trial(executor, tmp_path, Plan(settings=settings)).done
    assert all(item.ok for item in done.read_back)
    for knob in group:
        (found,) = [item for item in done.read_back if item.knob == knob.name]
        if sys.platform == "linux" and knob.probe != "idle":
            assert found.level == expected_level(knob), knob.name
        else:  # how idle a thread is depends on the neighbours; elsewhere /proc is missing
            assert found.level in ("echo", expected_level(knob)), knob.name


def test_onnx_runtime_knows_every_key() -> None:
    """A session accepts any key, and reads back one that nothing uses."""

    libraries = [
        file.read_bytes()
        for file in (Path(onnxruntime.__file__).parent / "capi").iterdir()
        if {".so", ".pyd", ".dll", ".dylib"} & set(file.suffixes)
    ]
    own = [
        knob
        for knob in KNOBS
        if (knob.channel in ("session_config", "run_config") and not knob.provider)
        or (knob.channel == "env" and knob.key.startswith("ORT_"))
    ]
    assert len(own) > 20
    for knob in own:
        if knobs.why_too_old(knob, onnxruntime.__version__) == "":
            assert any(knob.key.encode() + b"\0" in library for library in libraries), (
                f"onnxruntime {onnxruntime.__version__} does not contain the key {knob.key!r} of {knob.name}: "
                "correct its spelling, or set since to the release that introduces it"
            )


def test_the_default_plan_reads_nothing_back(executor: Executor, tmp_path: Path) -> None:
    assert trial(executor, tmp_path, Plan()).done.read_back == ()


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("session.intra_op.alow_spinning", "allow_spinning"),
        ("session.set_denormal_as_zero", "set_denormal_as_zero"),
        ("memory.enable_memory_arena_shrinkage", "memory_arena_shrinkage"),
    ],
)
def test_keys_of_onnx_runtime_s_own_name_the_setting_that_is_meant(key: str, meant: str) -> None:
    with pytest.raises(UsageError) as told:
        knobs.find(key)
    assert told.value.do.startswith(f"did you mean {meant}")


@pytest.mark.parametrize("device", ["gpu", "npu", "auto"])
def test_a_setting_of_one_device_is_refused_on_another(device: str) -> None:
    with pytest.raises(
        UsageError, match=f"openvino_cache is a setting of the CPU device.* on {device.upper()}"
    ):
        knobs.parse_settings([f"openvino_device={device}", "openvino_cache=1"])
    assert len(knobs.parse_settings(["openvino_device=cpu", "openvino_cache=1"])) == 2
    # In a plan file, the device may be an option of the provider.
    given = ProviderSpec(name="OpenVINOExecutionProvider", options={"device_type": device.upper()})
    with pytest.raises(UsageError, match="openvino_threads"):
        canonical(Plan(providers=(given,), settings={"openvino_threads": 2}))


def test_an_unknown_setting_of_a_provider_names_those_of_that_provider() -> None:
    with pytest.raises(UsageError) as refused:
        knobs.find("qnn_zzzzzzzz")
    assert "qnn_vtcm" in refused.value.do and "trt_fp16" not in refused.value.do


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        (["inter_op_num_threads=4"], ["execution_mode=parallel"]),
        (["inter_op_num_threads=4", "execution_mode=sequential"], ["execution_mode=parallel"]),
        (["inter_op_num_threads=4", "execution_mode=parallel"], []),
        (["intra_op_thread_affinities=1;2"], ["intra_op_num_threads=2"]),
        (["intra_op_thread_affinities=1;2", "intra_op_num_threads=3"], []),
        (["xnnpack_threads=2", "intra_op_num_threads=4"], ["intra_op_num_threads=1", "allow_spinning=0"]),
        (["allow_spinning=0"], []),
    ],
)
def test_what_a_setting_needs_and_a_plan_lacks(settings: list[str], missing: list[str]) -> None:
    parsed = knobs.parse_settings(settings)
    first, value = next(iter(parsed.items()))
    assert knobs.unmet(parsed) == ({assignment(first, value): missing} if missing else {})
