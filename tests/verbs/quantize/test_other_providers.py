"""``ortune quantize`` on other execution providers, in the same blocks as the methods of the CPU provider."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import made_runtimes
from facts import facts
from ortune import targets
from ortune.catalogue.knobs import lower_precisions
from ortune.records import NO_TIME, OutputDifference, Plan, ProviderSpec, RewriteSpec
from ortune.verbs.quantize import words
from ortune.verbs.quantize.other_providers import planned
from ortune.verbs.quantize.precision import QuantizedModel
from ortune.verbs.quantize.race import MOST_ELSEWHERE, contestants
from ortune.verbs.quantize.result import FrontRow, QuantizeResult
from precision_machine import OPENVINO, places_reached, products, slow_host, with_bfloat16
from simulated_machine import Faults, Lab, measuring_on
from targets_here import runtimes_here
from within import program

pytestmark = pytest.mark.xdist_group("quantize")

ON_OPENVINO = (ProviderSpec(name=OPENVINO),)


def float_row(result: QuantizeResult) -> FrontRow:
    return next(row for row in result.front if not row.plan.rewrites and not row.plan.providers)


def quantized(
    folder: Path, *options: str, faults: Faults | None = None, tolerance: str = "0.05", infinite: bool = False,
    budget: str = "100s",
) -> QuantizeResult:  # fmt: skip
    made_runtimes.require("openvino")
    lab = Lab(1, faults=faults or Faults(), faster_rewrite="static-int8", faster_target="openvino")
    model = products(folder, infinite=infinite)
    with measuring_on(lab):
        code, out, said = program([
            "quantize", str(model), "--data", str(folder / "data"), "--tolerance", tolerance, "--budget", budget,
            "--store", str(folder / "store"), "--output", str(folder), "--json", *options,
        ])  # fmt: skip
    assert code == 0, said
    return msgspec.convert(json.loads(out)["result"], QuantizeResult)


def test_layers_are_decided_on_the_provider_that_may_win(tmp_path: Path) -> None:
    """At this tolerance no whole model is right; errors of layers are those of the provider."""
    result = quantized(tmp_path, "--no-bundle", "--targets", "openvino", tolerance="0.009")
    assert not any(row.ok for row in result.front if row.plan.rewrites and not row.n_float)
    mixed = [row for row in result.front if row.plan.providers and 0 < row.n_float < row.n_layers]
    assert mixed and all(row.outputs is not None for row in mixed)
    assert result.layers_of is not None and result.layers_of.provider_names == (OPENVINO,)
    # OpenVINO's one node in the profile shows no times of layers.
    assert result.layers and all(layer.time_ns is None and layer.error for layer in result.layers)


def test_what_another_package_gains_is_named_and_the_answer_runs_in_the_users_own_runtime(
    tmp_path: Path,
) -> None:
    result = quantized(tmp_path, "--no-bundle")
    assert result.winner.rewrites and not result.winner.providers
    # Number types need no file: they come after the first method of the CPU provider.
    places = [(bool(row.plan.rewrites), bool(row.plan.providers)) for row in result.methods]
    assert places[0] == (True, False) and places.index((False, True)) < places.index((True, False), 1)
    # A short budget has seen the number types and two quantized files on the other provider too.
    tested = [row.plan for row in result.methods if row.tested and row.plan.providers]
    assert "f32" in {plan.settings["openvino_precision"] for plan in tested if not plan.rewrites}
    assert sum(bool(plan.rewrites) for plan in tested) >= 2
    better = result.elsewhere
    assert better is not None and better.plan.provider_names == (OPENVINO,) and better.ok
    assert better.comparison is not None and result.against_default is not None
    assert better.comparison.phase == "confirm"
    assert better.comparison.ratio < 0.9 * result.against_default.ratio
    assert result.elsewhere_needs is not None
    facts(
        words.better_with_package(result),
        "with another package",
        "error",
        "OpenVINO",
        "pip install",
        "openvino",
    )
    assert float_row(result) is result.front[0]
    assert "--targets openvino" in " ".join(words.on_target(result))


@pytest.mark.parametrize("tool_s", [4.0, 8.0])
def test_150_s_reach_bfloat16_and_two_quantized_files_on_each_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool_s: float
) -> None:
    """A run takes 10 ms, and a file of a quantizer several seconds; what is not reached has the budget that does."""
    with_bfloat16(monkeypatch)
    slow_host(monkeypatch, tool_s=tool_s)
    result = quantized(tmp_path, "--no-bundle", "--targets", "openvino", budget="150s")
    tested = [row.plan for row in result.methods if row.tested]
    files = places_reached([plan for plan in tested if plan.rewrites])
    assert files["cpu"] >= 2 and files["openvino"] >= 2
    types = {plan.settings["openvino_precision"] for plan in tested if plan.providers and not plan.rewrites}
    assert types == {"bf16", "f32"}
    raced = [row.plan for row in result.front if row.comparison is not None]
    assert raced and result.changes
    late = [row for row in result.methods if row.why == NO_TIME]
    assert bool(late) == bool(result.all_methods_s) and (tool_s < 8 or late)
    assert not late or result.all_methods_s > 150


def test_a_target_that_is_named_may_be_the_answer_and_its_bundle_names_the_packages(tmp_path: Path) -> None:
    result = quantized(tmp_path, "--targets", "openvino")
    assert result.winner.provider_names == (OPENVINO,)
    assert result.elsewhere is None and result.adoption is not None
    index = json.loads((Path(result.bundle) / "ortune.json").read_text(encoding="utf-8"))
    assert any("openvino" in name for name in result.adoption.requirements)
    assert OPENVINO in json.dumps(index)
    # The number type of what stays in float is part of the plan: the default differs between processors.
    assert "openvino_precision" in result.winner.settings
    own = [row for row in result.front if row.plan.rewrites and not row.plan.providers]
    assert own  # the row without another package


@pytest.mark.parametrize(
    ("faults", "reason"), [(Faults(wrong_on="openvino"), ""), (Faults(broken_on="openvino"), "drawn")]
)
def test_a_provider_that_fails_on_quantized_files_or_computes_them_wrong_wins_nothing(
    tmp_path: Path, faults: Faults, reason: str
) -> None:
    """Each file has a row with the reason, the race goes on, and the float model of that provider is judged as ever."""
    result = quantized(tmp_path, "--no-bundle", "--targets", "openvino", faults=faults)
    rows = [row for row in result.methods if row.plan.rewrites and row.plan.providers and row.tested]
    assert len(rows) >= 2
    assert all(row.why == reason for row in rows)
    assert not any(row.outputs is not None and row.outputs.ok for row in rows)
    raced = {row.plan.id for row in result.front if row.comparison is not None}
    assert raced and not raced & {row.plan.id for row in rows if row.outputs is None}
    assert not (result.winner.rewrites and result.winner.providers) and result.elsewhere is None
    assert result.changes and result.against_default is not None
    assert result.against_default.verdict == "faster"


def test_a_calibration_that_fails_has_a_row_with_the_reason_and_the_race_goes_on(tmp_path: Path) -> None:
    """Values of minus infinity have no range; dynamic int8 reads none of them."""
    result = quantized(tmp_path, "--no-bundle", "--targets", "openvino", infinite=True)
    whole = [
        row for row in result.methods if row.plan.rewrites and row.plan.rewrites[-1].name == "static-int8"
    ]
    failed = [row for row in whole if row.tested and "no range to calibrate" in row.why]
    assert failed and all(row.outputs is None for row in failed)
    # The processor of this machine has neither bfloat16 nor float16.
    lacking = {row.plan.settings["openvino_precision"]: row for row in result.methods if "lacks" in row.why}
    assert set(lacking) == {"bf16", "f16"} and not any(row.tested for row in lacking.values())
    facts(lacking["bf16"].why, "openvino_precision=bf16", "avx512_bf16")
    # The float model in its own number type was compared, and is the answer.
    assert result.winner.provider_names == (OPENVINO,) and not result.winner.rewrites
    assert result.winner.settings["openvino_precision"] == "f32" and result.changes
    tested = [row.plan for row in result.methods if row.tested and not row.why]
    assert any(plan.rewrites and plan.rewrites[-1].name == "dynamic-int8" for plan in tested)


@pytest.mark.parametrize(
    ("features", "types"),
    [
        ((), ["bf16", "f16"]),  # unknown
        (("avx2",), []),
        (("avx512_vnni",), []),
        (("amx_bf16",), ["bf16"]),
        (("avx512_bf16",), ["bf16"]),
        (("amx_bf16", "avx512_fp16"), ["bf16", "f16"]),
    ],
)
def test_a_number_type_is_tried_where_the_processor_has_instructions_for_it(
    features: tuple[str, ...], types: list[str]
) -> None:
    assert [settings["openvino_precision"] for settings in lower_precisions(OPENVINO, features)] == types


def test_models_of_other_providers_take_no_place_of_the_users_own() -> None:
    def model(number: int, *, elsewhere: bool) -> QuantizedModel:
        plan = Plan(
            rewrites=(RewriteSpec(name="static-int8", params={"leave": str(number)}),),
            providers=ON_OPENVINO if elsewhere else (),
        )
        outputs = OutputDifference(ok=True, relative_l2=0.01)
        return QuantizedModel(
            plan=plan, kept=frozenset(), outputs=outputs, error=0.01, time_ns=1e6 + number, ratio=0.5
        )

    own = [model(number, elsewhere=False) for number in range(8)]
    others = [replace(model(number, elsewhere=True), time_ns=1e5) for number in range(8)]
    chosen = contestants([*others, *own])
    assert sum(bool(one.plan.providers) for one in chosen) == MOST_ELSEWHERE
    assert sum(not one.plan.providers for one in chosen) >= MOST_ELSEWHERE
    assert own[0] in chosen


def test_a_target_that_does_not_run_here_is_planned_and_the_others_are_measured(tmp_path: Path) -> None:
    report = targets.find("tensorrt").discover(runtimes_here()[0])
    if report.usable:
        pytest.skip("TensorRT runs here")
    result = quantized(tmp_path, "--no-bundle", "--targets", "tensorrt,openvino")
    (planned,) = result.planned
    assert planned.target == "tensorrt" and planned.why == report.why
    files = [plan.rewrites[-1] for plan in planned.plans if plan.rewrites]
    assert RewriteSpec(name="float32-to-float16") in files
    assert any(spec.params.get("activations") == "s8" for spec in files if spec.name == "static-int8")
    assert all(plan.provider_names == ("TensorrtExecutionProvider",) for plan in planned.plans)
    facts(words.planned_words(planned), "tensorrt", report.why, "float32-to-float16", "activations=s8")
    assert any(row.plan.provider_names == (OPENVINO,) for row in result.methods)


def test_number_types_of_another_machine_are_planned() -> None:
    """CUDA's default is TF32 where the GPU has it; OpenVINO's types are set."""
    plans = {each.target: each.plans for each in planned({"cuda": "no GPU", "openvino": "none"}, [], {})}
    assert [plan.settings for plan in plans["cuda"] if not plan.rewrites] == [{}, {"cuda_tf32": "0"}]
    types = [plan.settings["openvino_precision"] for plan in plans["openvino"]]
    assert types == ["bf16", "f16", "f32"]
