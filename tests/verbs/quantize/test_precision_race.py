"""Which quantized models are compared with float in turns."""

from __future__ import annotations

from dataclasses import replace

from ortune.records import OutputDifference, Plan, ProviderSpec, RewriteSpec
from ortune.verbs.quantize.precision import QuantizedModel
from ortune.verbs.quantize.race import contestants, most_promising_first

FLOAT_NS = 3e6


def quantized(
    time_ns: float, error: float, *kept: str, means: str = "static-int8", ok: bool = True
) -> QuantizedModel:
    """A whole model with an observed time; with layers in float, one whose time is predicted."""
    plan = Plan(rewrites=(RewriteSpec(name=means, params={"leave": "+".join(kept)} if kept else {}),))
    return QuantizedModel(
        plan=plan,
        kept=frozenset(kept),
        outputs=OutputDifference(ok=ok, relative_l2=error),
        error=error,
        time_ns=time_ns,
        ratio=None if kept else time_ns / FLOAT_NS,
    )


def test_the_fastest_whole_models_are_compared_whatever_is_predicted_of_others() -> None:
    whole = [quantized(1.8e6, 0.06), quantized(1.9e6, 0.07, means="dynamic-int8")]
    predicted = [
        quantized(1.0e6 + 1e4 * n, 0.05 - 0.001 * n, *(f"layer{i}" for i in range(n + 1))) for n in range(8)
    ]
    chosen = contestants([*predicted, *whole])
    assert len(chosen) == 6
    assert all(model in chosen for model in whole)
    assert predicted[0] in chosen


def test_a_whole_model_beyond_the_tolerance_takes_no_place_of_those_within() -> None:
    wrong = quantized(1.8e6, 0.6, ok=False)
    predicted = [quantized(2.0e6, 0.05, "a"), quantized(2.1e6, 0.04, "a", "b")]
    assert contestants([wrong, *predicted])[:2] == predicted


def test_a_short_budget_compares_first_what_was_seen_to_be_faster_and_may_win() -> None:
    """The only model of the CPU provider within the tolerance is slower than float; another provider's float is not."""
    slower = quantized(6.0e6, 0.01, means="dynamic-int8")
    wrong = quantized(1.0e6, 0.9, ok=False)
    plan = Plan(
        providers=(ProviderSpec(name="OpenVINOExecutionProvider"),), settings={"openvino_precision": "f32"}
    )
    elsewhere = replace(quantized(2.4e6, 1e-6), plan=plan)
    for ships in (lambda plan: True, lambda plan: not plan.providers):
        assert most_promising_first([slower, wrong, elsewhere], ships)[0] is elsewhere
    own = quantized(2.5e6, 0.02)
    models = [slower, own, elsewhere]
    assert most_promising_first(models, lambda plan: True) == [elsewhere, slower, own]
    # What needs another package may not win, so what may comes first.
    assert most_promising_first(models, lambda plan: not plan.providers) == [own, slower, elsewhere]
    assert most_promising_first([slower, wrong], lambda plan: True) == [slower, wrong]
