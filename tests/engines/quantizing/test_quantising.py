"""Fewer bits in a tuning: only where they are allowed, with error, size and speed side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import made_runtimes
from onnx_text import assemble, model_of, saved
from ortune import rewrites
from ortune.engines.quantizing.inputs import QuantizationInputs, write_inputs
from ortune.engines.quantizing.precision_table import error_class, table
from ortune.engines.quantizing.quantizing import (
    Quantising,
    named_operator,
    unsaturated,
)
from ortune.engines.racing.tuning import Tuning
from ortune.errors import InputError
from ortune.graph.model.open import open_model
from ortune.inputs import user_feeds
from ortune.inputs.value_files import VERSION
from ortune.measuring.budget import Budget
from ortune.measuring.measuring import Measuring
from ortune.measuring.replay import Replay
from ortune.measuring.rewriting import usable_packages
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.sides import SideText, resolve
from ortune.measuring.watcher import Watcher
from ortune.outputs.comparison import compare_outputs
from ortune.outputs.tolerance import top1_by_output
from ortune.records import (
    Calibration,
    Candidate,
    Host,
    OutputDifference,
    Plan,
    PrecisionRow,
    ProviderSpec,
    RewriteSpec,
    Runtime,
)
from ortune.runtimes import nncf
from ortune.search.plan_edits import with_change
from ortune.search.proposals.plans import PlanProposal
from ortune.show import precision_words
from ortune.show.document import Document
from ortune.show.terminal import plain
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.verbs.quantize.document import saturation
from ortune.verbs.quantize.methods import methods_worth_testing
from ortune.verbs.tune.run import Options
from within import program


def model(path: Path) -> Path:
    """Products large enough to gain, with weights among the graph inputs as old exporters have them."""
    rng = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(rng.standard_normal((256, 256)).astype(np.float32) * 0.06, f"w{i}")
        for i in range(3)
    ]
    nodes = []
    for i in range(3):
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"x{i + 1}"]))
    onnx.save(
        assemble(
            nodes,
            [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [16, 256])]
            + [helper.make_tensor_value_info(w.name, TensorProto.FLOAT, list(w.dims)) for w in weights],
            "float[16,256] x3",
            weights,
            opset=13,
            ir_version=7,
            name="products",
        ),
        path,
    )
    return path


def tune(folder: Path, *words: str, budget: str = "18s") -> dict[str, Any]:
    """The document of the command, run within this process."""
    code, out, _ = program(
        ["tune", str(model(folder / "m.onnx")), "--store", str(folder / "store"), "--no-bundle",
         "--budget", budget, "--json", *words]
    )  # fmt: skip
    assert code in (0, 2, 3)
    found: dict[str, Any] = json.loads(out)
    return found


GROUND = RewriteSpec(name="initializers-out-of-inputs")
"""What a quantizer needs first: it takes constants alone."""


@contextmanager
def quantising(
    folder: Path, data: Path, elsewhere: dict[str, Runtime] | None = None
) -> Iterator[tuple[Tuning, QuantizationInputs]]:
    """A tuning of the model that has run its pilot, and the inputs of quantised models."""
    options = Options(model=model(folder / "m.onnx"), tolerance=0.05, data=data)
    with scratch_folder() as scratch:
        own = resolve(SideText(text=str(options.model)), common=Plan(), scratch=scratch)
        side = replace(own, elsewhere=elsewhere or {})
        baseline = Measuring(side, options.feeds, scratch, SessionLog(None, ""), print, Machine())
        tuning = Tuning(
            baseline, Replay(), Watcher(), objective="latency", worth=0.01, allowed=("numerics",),
            budget=Budget(total_s=600), current=None,
        )  # fmt: skip
        baseline.find_inputs(600)
        run_pilot(baseline, "latency")
        inputs = write_inputs(baseline)
        tuning.models.feeds = inputs.calibrating
        yield tuning, inputs


def plan_of(name: str) -> PlanProposal:
    spec = RewriteSpec(name=name)
    plan = Plan(rewrites=(GROUND, spec), settings=rewrites.settings_for([spec]))
    return PlanProposal(plan=plan, origin="", prior=0.5)


def test_where_outputs_are_nearly_zero_the_error_is_not_known(tmp_path: Path) -> None:
    """Products of numbers next to nothing: every quantised model would be right."""
    data = tmp_path / "data"
    data.mkdir()
    np.savez(data / "0.npz", x0=np.full((16, 256), 1e-8, np.float32))
    with quantising(tmp_path, data) as (tuning, inputs):
        tried = Quantising(tuning, inputs)
        assert not tried.chosen([plan_of("dynamic-int8")])
    assert inputs.summary == Calibration(inputs=1, checked=1, source=str(data), labelled=0)
    (row,) = tried.rows
    assert row.outputs is not None
    assert "nearly zero" in row.why and row.within_ratio is None


def eight_inputs(folder: Path) -> Path:
    """A folder of .npz, as a user has them."""
    folder.mkdir()
    for i in range(8):
        values = np.random.default_rng(i).standard_normal((16, 256)).astype(np.float32)
        np.savez(folder / f"{i}.npz", x0=values)
    return folder


def test_quantised_models_are_tried_on_the_users_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of .npz: six to calibrate on, two kept for the error; each row says what it is."""
    data = eight_inputs(tmp_path / "data")
    usual = ("static-int8", "dynamic-int8")
    plans = [plan_of(name) for name in usual]
    with quantising(tmp_path, data) as (tuning, inputs):
        baseline = tuning.baseline
        found = rewrites.proposals(baseline.side.model.ir, ("numerics",), workload=baseline.work)
        assert {*usual} <= {spec.name for spec, _ in found}
        tried = Quantising(tuning, inputs)
        raced = tried.chosen(plans)
        # What a start takes is not to be read off runs.
        monkeypatch.setattr("ortune.engines.quantizing.quantizing.NOT_SLOWER", 0.0)
        tuning.search.race.objective = "cold-start"
        again = Quantising(tuning, inputs)
        assert len(again.chosen(plans[1:])) == sum(not r.why for r in again.rows) > 0
    assert inputs.summary == Calibration(inputs=6, checked=2, source=str(data), labelled=0)
    rows = {r.plan.rewrites[-1].name: r for r in tried.rows if r.outputs is not None}
    assert {*usual} <= rows.keys()
    static = rows["static-int8"]
    assert static.outputs is not None
    assert static.size_bytes < (tmp_path / "m.onnx").stat().st_size / 2
    assert 0 < static.outputs.relative_l2 < 0.05
    assert static.outputs.top1 > 0.5
    assert static.within_ratio in (0.01, 0.05)
    # Only what is right and not slower is raced.
    assert {each.plan.id for each in raced} == {r.plan.id for r in tried.rows if not r.why}


def test_another_provider_is_given_the_files_and_one_of_its_own_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO computes chains of products right only with signed activations and one scale for each tensor."""
    monkeypatch.setattr("ortune.engines.quantizing.quantizing.NOT_SLOWER", 1e9)
    data = eight_inputs(tmp_path / "data")
    base = Plan(
        providers=(ProviderSpec(name="OpenVINOExecutionProvider"),), settings={"openvino_precision": "f32"}
    )
    runtime = made_runtimes.require("openvino").runtime
    with quantising(tmp_path, data, {"openvino": runtime}) as (tuning, inputs):
        tried = Quantising(tuning, inputs)
        raced = tried.chosen([plan_of("static-int8")], [base])
    there = {str(r.plan.rewrites[-1].params.get("scales", "")): r for r in tried.rows if r.plan.providers}
    assert set(there) == {"", "tensor"} and all(r.plan.settings == base.settings for r in there.values())
    own_kind = there["tensor"]
    assert own_kind.outputs is not None and own_kind.outputs.ok and not own_kind.why
    assert own_kind.plan.id in {proposal.plan.id for proposal in raced}
    assert {p.plan.id for p in raced} == {r.plan.id for r in tried.rows if not r.why}


@pytest.mark.long
def test_nncfs_file_is_tried_last_and_given_to_another_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is proposed where its environment exists. How fast it is on the CPU provider does not matter there."""
    monkeypatch.setattr("ortune.engines.quantizing.quantizing.NOT_SLOWER", 1e-9)
    runtime = made_runtimes.require("openvino").runtime
    apart = made_runtimes.CACHE / "apart"
    monkeypatch.setenv("XDG_CACHE_HOME", str(apart))
    made_runtimes.require(nncf.NNCF, apart)
    data = eight_inputs(tmp_path / "data")
    base = Plan(
        providers=(ProviderSpec(name="OpenVINOExecutionProvider"),), settings={"openvino_precision": "f32"}
    )
    with quantising(tmp_path, data, {"openvino": runtime}) as (tuning, inputs):
        side, work = tuning.side, tuning.baseline.work
        for packages, count in ((side.runtime.packages, 0), (usable_packages(side.runtime), 1)):
            found = rewrites.proposals(side.model.ir, ("numerics",), workload=work, packages=packages)
            assert [spec.name for spec, _ in found].count("nncf-int8") == count
        tried = Quantising(tuning, inputs)
        tried.chosen([plan_of("nncf-int8"), plan_of("dynamic-int8")], [base])
    names = [row.plan.rewrites[-1].name for row in tried.rows if not row.plan.providers]
    assert names[:2] == ["dynamic-int8", "nncf-int8"]
    there = [row for row in tried.rows if row.plan.providers]
    assert [row.plan.rewrites[-1].name for row in there] == ["nncf-int8"]
    assert there[0].outputs is not None and there[0].outputs.comparable


def test_a_folder_of_arrays_is_read_in_order(tmp_path: Path) -> None:
    opened = open_model(model(tmp_path / "m.onnx"))
    for i in (10, 2, 1):
        np.savez(tmp_path / f"{i}.npz", x0=np.full((16, 256), i, np.float32))
    sets = user_feeds.load(tmp_path, opened.ir)
    assert [float(np.asarray(each["x0"])[0, 0]) for each in sets] == [1, 2, 10]


def difference(relative_l2: float) -> OutputDifference:
    return OutputDifference(ok=True, relative_l2=relative_l2)


def row(name: str, error: float, ratio: float | None) -> PrecisionRow:
    plan = Plan(rewrites=(RewriteSpec(name=name),))
    found = difference(error)
    return PrecisionRow(plan=plan, within_ratio=error_class(found), ratio=ratio, outputs=found, size_bytes=10)


def test_the_table_holds_the_fastest_of_each_class() -> None:
    """What is slower than something nearer stands in no class; what the race saw replaces a first look."""
    rows = [
        row("static-int8", 0.02, 0.5),
        row("dynamic-int8", 0.008, 0.7),
        row("weight-only-bits", 0.0005, 1.2),
    ]
    products = RewriteSpec(name="static-int8", params={"operators": "products"})
    long = msgspec.structs.replace(rows[0], plan=Plan(rewrites=(products,)))
    raced = Candidate(
        plan=rows[0].plan, origin="", status="winner", ratio=0.4, ratio_low=0.38, ratio_high=0.42, n_blocks=9
    )
    found = table(rows, [raced], 1000)
    assert [(r.within_ratio, r.ratio, r.pareto) for r in found] == [
        (0.0, 1.0, True),
        (0.001, 1.2, False),
        (0.01, 0.7, True),
        (0.05, 0.4, True),
    ]
    told = precision_words.side_by_side(found)
    assert [cells[0].beneath for cells in told.rows] == ["exact", "within 1.0 %", "within 5.0 %"]
    assert [cells[1].beneath for cells in told.rows[1:]] == ["single observation", "-62.0 % to -58.0 %"]
    # No model here has classes; and names stay whole at the width of a log.
    assert "top-1" not in [column.head for column in told.columns]
    assert "static-int8:operators=products" in plain(
        Document(blocks=[precision_words.side_by_side(table([long], [], 1000))])
    )
    assert table([], [raced], 1000) == ()


def test_a_plan_has_one_model_of_fewer_bits() -> None:
    one, two = row("static-int8", 0, 1).plan, row("dynamic-int8", 0, 1).plan
    assert with_change(one, two, Plan()) is None
    assert with_change(one, Plan(settings={"intra_op_num_threads": 1}), Plan()) is not None


def test_top_1_agreement_is_told(tmp_path: Path) -> None:
    """Of four rows one has its largest value elsewhere."""
    values = np.eye(4, dtype=np.float32)
    other = values.copy()
    other[3] = values[0]
    for name, array in (("a", values), ("b", other)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", array)
        entry = {"name": "y", "kind": "tensor", "onnx_type": "float", "files": ["0.npy"]}
        (tmp_path / name / "outputs.json").write_text(json.dumps({"version": VERSION, "outputs": [entry]}))
    assert top1_by_output([compare_outputs(tmp_path / "a", tmp_path / "b")]) == {"y": 0.75}
    assert top1_by_output([compare_outputs(tmp_path / "a", tmp_path / "a")]) == {"y": 1.0}


def test_data_that_nothing_would_use_is_refused(tmp_path: Path) -> None:
    found = tune(tmp_path, "--data", str(tmp_path))
    assert (found["status"], found["error"]["where"]) == ("error", "--data")
    assert "--allow numerics" in found["error"]["do"]


def test_what_is_wrong_with_the_data_names_the_option(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", other=np.zeros((16, 256), np.float32))
    opened = open_model(model(tmp_path / "m.onnx"))
    with pytest.raises(InputError, match=r"--data .*0\.npz: no value for x0; other is not an input"):
        user_feeds.load(tmp_path, opened.ir, "--data")


@pytest.mark.parametrize(
    ("said", "but", "kind"),
    [
        ("Could not find an implementation for Relu(13) node with name 'a'", (), "Relu"),
        ("ShapeInferenceError in node (named) of another operator", (), "MatMul"),
        ("invalid: MatMul_7_quant is of tensor(int8)", (), "MatMul"),
        ("invalid: MatMul_7_quant is of tensor(int8)", ("MatMul",), ""),
        ("timed out after 18 s of loading", (), ""),
    ],
)
def test_the_operator_that_an_error_names(said: str, but: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    proto = onnx.load(model(tmp_path / "m.onnx"))
    proto.graph.node[0].name = "named"
    onnx.save(proto, tmp_path / "n.onnx")
    assert named_operator(open_model(tmp_path / "n.onnx").ir, said, but) == kind


def test_an_lstm_gets_seven_bits_where_eight_saturate(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weights = {name: rng.standard_normal((1, 256, 64)).astype(np.float32) for name in ("w", "r")}
    text = "one (float[4,1,64] x) => (float[4,1,1,64] y) { [lstm] y = LSTM <hidden_size = 64> (x, w, r) }"
    saved(tmp_path / "lstm.onnx", model_of(text, weights=weights))
    model = open_model(tmp_path / "lstm.onnx").ir
    saturating = Host(
        system="Linux", machine="x86_64", cpu="Box", cores=2, logical=2, affinity=2, effective_cpus=2,
        memory_bytes=1 << 34, features=("avx2", "fma"),
    )  # fmt: skip
    vnni = msgspec.structs.replace(saturating, features=("avx2", "avx512_vnni"))
    made = {host.features[1]: methods_worth_testing(model, Plan(), host)[0] for host in (saturating, vnni)}
    assert [plan.rewrites[-1].params for plan in made["fma"]] == [{"range": "7", "scales": "channel"}]
    assert [plan.rewrites[-1].params for plan in made["avx512_vnni"]] == [{"scales": "channel"}]
    spec = RewriteSpec(name="dynamic-int8", params={"scales": "channel"})
    assert unsaturated(spec, model, vnni) == spec != unsaturated(spec, model, saturating)
    unsigned = rewrites.parse("dynamic-int8:weights=u8")
    assert unsaturated(unsigned, model, saturating) == unsigned


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("static-int8", "measured"), ("dynamic-int8", "measured"), ("dynamic-int8:weights=u8", ""),
        ("dynamic-int8:range=7", ""), ("weight-only-bits:bits=4", ""), ("", ""),
    ],
)  # fmt: skip
def test_only_int8_weights_of_all_8_bits_saturate(text: str, there: str) -> None:
    plan = Plan(rewrites=(rewrites.parse(text),)) if text else None
    old = Host(
        system="Linux", machine="x86_64", cpu="Box", cores=2, logical=2, affinity=2, effective_cpus=2,
        memory_bytes=1 << 34, features=("avx2",),
    )  # fmt: skip
    assert saturation(plan, old) == there
    new = msgspec.structs.replace(old, features=("avx2", "avx512_vnni"))
    assert saturation(plan, new) == there.replace("measured", "elsewhere")


def test_fewer_bits_by_a_setting_are_a_row_of_their_own_and_not_the_exact_one() -> None:
    bfloat16 = Plan(
        providers=(ProviderSpec(name="OpenVINOExecutionProvider"),), settings={"openvino_precision": "bf16"}
    )
    outputs = OutputDifference(ok=True, relative_l2=0.004)
    raced = Candidate(plan=bfloat16, origin="", status="eliminated", ratio=0.5, n_blocks=4, outputs=outputs)
    exact, lower = table([], [raced], 1000)
    assert (exact.plan, exact.within_ratio) == (Plan(), 0.0)
    assert (lower.plan, lower.within_ratio, lower.ratio) == (bfloat16, 0.01, 0.5)
