"""Outputs that differ by more than rounding are worth a gain that is plain."""

from __future__ import annotations

import pytest

import golden
from ortune.records import AcceptedChange, OutputDifference, Plan, ProviderSpec, RewriteSpec
from ortune.search.loss import WORTH_LOSS, is_lossy, justifies_loss

INT8 = Plan(rewrites=(RewriteSpec(name="dynamic-int8"),))
ON_OPENVINO = (ProviderSpec(name="OpenVINOExecutionProvider"),)
BFLOAT16 = Plan(providers=ON_OPENVINO, settings={"openvino_precision": "bf16"})
FLOAT32 = Plan(providers=ON_OPENVINO, settings={"openvino_precision": "f32"})
TF32 = Plan(providers=(ProviderSpec(name="CUDAExecutionProvider"),))
THREADS = Plan(settings={"intra_op_num_threads": 2})
ROUNDED = OutputDifference(ok=True, relative_l2=2e-6)
FAR = OutputDifference(ok=True, relative_l2=0.009)


@pytest.mark.parametrize(
    ("plan", "outputs", "lossy"),
    [
        (INT8, FAR, True),
        (INT8, None, True),
        (INT8, ROUNDED, False),  # all layers that matter are in float
        (BFLOAT16, FAR, True),
        (BFLOAT16, ROUNDED, False),
        (TF32, FAR, True),  # CUDA's default where the GPU has it
        # An exact plan is no loss, whatever a tolerance would have allowed.
        (FLOAT32, FAR, False),
        (THREADS, FAR, False),
        (THREADS, None, False),
    ],
)
def test_a_plan_loses_if_it_lowers_the_precision_and_its_outputs_show_it(
    plan: Plan, outputs: OutputDifference | None, lossy: bool
) -> None:
    assert is_lossy(plan, outputs, Plan()) is lossy


def test_labels_that_differ_are_a_loss_though_they_have_no_distance() -> None:
    tie = AcceptedChange(output="y", reason="tie", what="labels", n_differing=1, n_elements=24)
    assert is_lossy(INT8, OutputDifference(ok=True, accepted=(tie,)), Plan())


def test_what_the_user_runs_or_requires_is_no_loss_of_a_plan_that_has_it_too() -> None:
    faster = Plan(rewrites=INT8.rewrites, settings=THREADS.settings)
    assert is_lossy(faster, FAR, Plan())
    assert not is_lossy(faster, FAR, INT8, Plan())
    assert not is_lossy(BFLOAT16, FAR, Plan(), BFLOAT16)
    assert not is_lossy(TF32, FAR, TF32)


@pytest.mark.parametrize(
    ("low", "high", "verdict", "justified"),
    [
        (0.90, 0.949, "faster", True),
        (0.80, 0.951, "faster", False),  # 1.12x, and 1.05x at least is not shown
        (0.97, 0.98, "faster", False),
        (0.90, None, "inconclusive", False),
    ],
)
def test_the_whole_interval_must_show_the_gain(
    low: float, high: float | None, verdict: str, justified: bool
) -> None:
    comparison = golden.comparison(
        ratio=(low + (high or 1.0)) / 2, ratio_low=low, ratio_high=high, verdict=verdict, phase="confirm"
    )
    assert WORTH_LOSS == 0.05
    assert justifies_loss(comparison) is justified
    assert not justifies_loss(None)
