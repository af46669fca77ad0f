"""What a stranger's bundle sets is on a closed list, whatever ``ortune.json`` says."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from emitted_code import emitted

import ortune
from conftest import Bundle, matmul
from hostile import commands
from hostile.data import NAME
from ortune.bundle import digests, shared
from ortune.bundle.settings import resolve
from ortune.catalogue import knobs
from ortune.errors import UsageError
from ortune.measuring.sides import SideText
from ortune.measuring.sides import resolve as resolve_side
from ortune.records import Plan, Value

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import make_allowed

FEEDS = {"x": np.ones((2, 64), np.float32)}


@pytest.fixture
def bundle(tmp_path: Path, make_bundle: Bundle) -> Path:
    return make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, {"allow_spinning": False})


def test_what_is_applied_follows_from_the_plan_alone(bundle: Path, tmp_path: Path) -> None:
    start_up = tmp_path / ".bashrc"
    start_up.write_text("mine")
    more = [
        commands.applied("session_option", "optimized_model_filepath", str(start_up)),
        commands.applied("session_option", "profile_file_prefix", str(tmp_path / "profile")),
        commands.applied("session_config", "session.allow_spinning", "1"),
        commands.applied("env", "LD_PRELOAD", "/tmp/evil.so"),
    ]
    commands.bundle_index(bundle, applied=more)
    session = ortune.load(bundle)
    assert start_up.read_text() == "mine"
    entry = session.get_session_options().get_session_config_entry("session.intra_op.allow_spinning")
    assert entry == "0"


@pytest.mark.parametrize(
    "settings",
    [
        {"optimized_model_filepath": "/tmp/x"},
        {"allow_spinning": "/tmp/x"},
        {"intra_op_num_threads": "os.cpu_count()"},
        {"intra_op_num_threads": -1},
        {"process_affinity": "0 sh -c evil"},
        {"disabled_optimizers": "A;$(evil)"},
        {"openvino_cache": "/home"},
        {"allocator": "/tmp/evil.so"},
        {"graph_optimization_level": ["all"]},
    ],
)
def test_a_setting_that_is_on_no_list_is_refused(bundle: Path, settings: dict[str, Any]) -> None:
    commands.bundle_index(bundle, plan_settings=settings)
    with pytest.raises(
        UsageError,
        match=f"is not a setting|is not a value of|is not a valid value for {next(iter(settings))}",
    ):
        ortune.load(bundle)


@pytest.mark.parametrize(("name", "options"), commands.LIBRARY_OPTIONS)
def test_an_option_that_loads_code_is_refused(bundle: Path, name: str, options: dict[str, str]) -> None:
    commands.bundle_index(bundle, plan_providers=[{"name": name, "options": options}])
    with pytest.raises(UsageError, match=rf"a bundle cannot set {next(iter(options))}=.* of {name}"):
        ortune.load(bundle)
    side = SideText(text=str(bundle))
    with pytest.raises(UsageError, match=f"{next(iter(options))}=.* cannot be set by a plan"):
        resolve_side(side, common=Plan(), scratch=bundle.parent)


def test_what_is_to_be_installed_is_no_option_of_pip(bundle: Path) -> None:
    wanted = ["--index-url=http://evil", "good==1.2", "evil @ http://evil/x.whl", "x;sh==1"]
    commands.bundle_index(bundle, plan_providers=[{"name": "CUDAExecutionProvider"}], requirements=wanted)
    with pytest.raises(UsageError, match="CUDA") as refusal:
        ortune.load(bundle)
    assert (refusal.value.do or "").startswith("pip install good==1.2, or use load(")


def test_what_load_says_acts_on_no_terminal_and_no_log(bundle: Path) -> None:
    host = {"machine": NAME, "cpu": NAME, "features": [NAME], "effective_cpus": 1}
    commands.bundle_index(bundle, host=host, ort_version=NAME)
    with pytest.warns(UserWarning, match="tuned on another CPU") as caught:
        ortune.load(bundle)
    assert [str(w.message) for w in caught if not str(w.message).isprintable()] == []
    commands.bundle_index(bundle, model=NAME)
    with pytest.raises(UsageError) as refused:
        ortune.load(bundle)
    said = str(refused.value)
    assert [c for c in said if not c.isprintable() and c != "\n"] == []
    assert "##[" not in said and not any(line.startswith("::") for line in said.splitlines())


def test_a_provider_is_a_name(bundle: Path) -> None:
    commands.bundle_index(bundle, plan_providers=[{"name": f"{NAME}ExecutionProvider"}])
    with pytest.raises(UsageError, match="is not an execution provider"):
        ortune.load(bundle)


def test_a_name_that_no_file_can_have_is_a_model_that_is_missing(bundle: Path) -> None:
    index = json.loads((bundle / "ortune.json").read_text())
    (bundle / "ortune.json").write_text(json.dumps({**index, "model": "a" * 5000}))
    with pytest.raises(UsageError, match="is missing"):
        ortune.load(bundle)


def test_the_closed_list_is_that_of_the_settings() -> None:
    assert shared.ALLOWED.read_text(encoding="utf-8") == make_allowed.allowed(), (
        "run: python tools/make_allowed.py"
    )
    texts = {
        "process_affinity": "0,2",
        "intra_op_thread_affinities": "1;2-3",
        "disabled_optimizers": "A;B",
        "web_force_cpu_nodes": "A;B",
        "web_free_dimensions": "batch=1;seq=2",
        "webgpu_force_cpu_nodes": "A\nB",
        "node_placement": "CPUExecutionProvider(A,B);CUDAExecutionProvider(AB)",
        **{f"{own}_profile_{name}": "x:1x3,y:2" for own in ("trt", "rtx") for name in ("min", "opt", "max")},
    }
    for name, knob in knobs.all_knobs().items():
        values: list[Value] = {
            "bool": [True, False],
            "int": [knob.minimum or 0, max(knob.minimum or 0, 7)],
        }.get(knob.kind, [*knob.choices])
        for value in values or [texts[name]]:
            (ours,) = resolve(Plan(settings={name: value}))
            (theirs,) = shared.applied(json.loads(json.dumps({name: value})))
            assert {**theirs, "probe": ours.probe} == {k: getattr(ours, k) for k in ours.__struct_fields__}


def test_emitted_code_reads_no_setting_from_a_file() -> None:
    for name, text in emitted({"allow_spinning": False}).items():
        assert shared.INDEX not in text, name


def test_weights_behind_a_link_are_not_written_outside_the_bundle(
    tmp_path: Path, make_bundle: Bundle
) -> None:
    model = commands.linked_weights(tmp_path / "checkout" / "models")
    before = tmp_path / "made" / "w.bin"
    before.parent.mkdir()
    before.write_text("mine")
    with pytest.raises(UsageError, match="would be stored outside the bundle"):
        make_bundle(model, FEEDS)
    assert before.read_text() == "mine"


EVIL = "\x1b[31mred\n::error::from the file"


def printed(refused: pytest.ExceptionInfo[BaseException]) -> str:
    """What Python prints of an error that nobody catches."""
    return "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "damage",
    [
        lambda bundle: commands.bundle_index(bundle, plan_settings={EVIL: 1}),
        lambda bundle: commands.bundle_index(bundle, plan_settings={"allow_spinning": EVIL}),
        lambda bundle: commands.bundle_index(bundle, plan_settings={"dynamic_block_base": 2**70}),
        lambda bundle: commands.bundle_index(bundle, plan_settings={"intra_op_num_threads": 10**400}),
        lambda bundle: (bundle / "ortune.json").write_text(f'{{"schema": "{EVIL}'),
        lambda bundle: not_a_model(bundle, EVIL.encode()),
        lambda bundle: not_a_model(bundle, renamed(bundle)),
    ],
)
def test_no_raw_error_of_a_bundle_is_printed(bundle: Path, damage: Callable[[Path], object]) -> None:
    damage(bundle)
    with pytest.raises(UsageError) as refused:
        ortune.load(bundle)
    text = printed(refused)
    assert "\x1b" not in text and not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert refused.value.__cause__ is None and refused.value.__suppress_context__


def not_a_model(bundle: Path, data: bytes) -> None:
    model = json.loads((bundle / "ortune.json").read_text())["model"]
    (bundle / model).write_bytes(data)
    digests.write(bundle)


def renamed(bundle: Path) -> bytes:
    """The model with an operator whose name acts on a terminal."""
    model = onnx.load(bundle / json.loads((bundle / "ortune.json").read_text())["model"])
    model.graph.node[0].op_type = EVIL
    return bytes(model.SerializeToString())


def test_load_looks_at_the_digests(bundle: Path) -> None:
    index = bundle / "ortune.json"
    index.write_text(index.read_text() + "\n")
    with pytest.raises(UsageError, match="changed after the bundle was created"):
        ortune.load(bundle)
    digests.write(bundle)
    ortune.load(bundle)
    (bundle / "report.html").write_text("changed by somebody")
    ortune.load(bundle)
    (bundle / digests.SUMS).unlink()
    with pytest.raises(UsageError, match=digests.SUMS):
        ortune.load(bundle)


@pytest.mark.parametrize("name", ["weights.bin", "inputs/more"])
@pytest.mark.parametrize("opened", ["load", "compare"])
def test_a_link_that_no_list_names_is_refused_too(
    bundle: Path, tmp_path: Path, name: str, opened: str
) -> None:
    """A model may name any file of its folder as external data."""
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / "kept").write_text("inside")
    (bundle / name).symlink_to(bundle / "kept")
    ortune.load(bundle)
    (bundle / name).unlink()
    (tmp_path / "secret").write_text("hunter2")
    (bundle / name).symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match="link") as refused:
        if opened == "load":
            ortune.load(bundle)
        else:
            resolve_side(SideText(text=str(bundle)), common=Plan(), scratch=tmp_path)
    assert name in refused.value.where


@pytest.mark.parametrize("name", ["SHA256SUMS", "ortune.json", "model"])
@pytest.mark.parametrize("opened", ["load", "compare"])
def test_a_link_out_of_the_bundle_is_refused_without_a_word_of_its_content(
    bundle: Path, tmp_path: Path, name: str, opened: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password=hunter2 of somebody\n")
    place = bundle / (json.loads((bundle / "ortune.json").read_text())["model"] if name == "model" else name)
    place.unlink()
    place.symlink_to(secret)
    with pytest.raises(UsageError, match="link") as refused:
        if opened == "load":
            ortune.load(bundle)
        else:
            resolve_side(SideText(text=str(bundle)), common=Plan(), scratch=tmp_path)
    assert "hunter2" not in printed(refused)
    place.unlink()
    place.write_text(secret.read_text())
    with pytest.raises(UsageError) as refused:
        ortune.load(bundle)
    assert "hunter2" not in printed(refused)


@pytest.mark.parametrize("name", ["SHA256SUMS", "ortune.json", "report.html"])
@pytest.mark.parametrize("opened", ["load", "compare"])
def test_a_hard_link_shows_and_changes_nothing_of_its_file(
    bundle: Path, tmp_path: Path, name: str, opened: str
) -> None:
    """An archive can contain hard links, and no check of paths finds them."""
    secret = tmp_path / "secret"
    secret.write_text("password=hunter2 of somebody\n")
    (bundle / name).unlink()
    (bundle / name).hardlink_to(secret)
    try:
        if opened == "load":
            ortune.load(bundle)
        else:
            resolve_side(SideText(text=str(bundle)), common=Plan(), scratch=tmp_path)
    except UsageError as error:
        assert "hunter2" not in str(error)
        assert name != "report.html"  # a page is for people, and is not read
    else:
        assert name == "report.html"
    assert secret.read_text() == "password=hunter2 of somebody\n"
