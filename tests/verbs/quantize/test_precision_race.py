"""Which quantized models are compared with float in turns."""

from __future__ import annotations

from ortune.records import OutputDifference, Plan, RewriteSpec
from ortune.verbs.quantize.precision import QuantizedModel
from ortune.verbs.quantize.race import contestants

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
