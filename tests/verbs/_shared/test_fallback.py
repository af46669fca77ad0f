"""Which plan a page runs where its device cannot run the winner."""

from __future__ import annotations

import pytest

from ortune.records import Comparison, Plan, ProviderSpec, RewriteSpec, VerdictName
from ortune.verbs._shared.tuned import fallback


def plan(*providers: str, rewrites: tuple[str, ...] = (), **settings: int | str) -> Plan:
    return Plan(
        providers=tuple(ProviderSpec(name=name) for name in providers),
        rewrites=tuple(RewriteSpec(name=name) for name in rewrites),
        settings=settings,
    )


WASM, GPU, TODAY = plan("wasm"), plan("webgpu", web_build="asyncify"), plan("wasm", web_threads=2)
ROW = ("dead-nodes",)


@pytest.mark.parametrize(
    ("shipped", "default", "current", "verdict", "expected"),
    [
        (GPU, WASM, None, None, WASM),
        (plan("webgpu", rewrites=ROW), WASM, None, None, WASM),
        # What runs today, where it was confirmed to be faster than the default, and a bundle has its model.
        (GPU, WASM, TODAY, "faster", TODAY),
        (GPU, WASM, TODAY, "inconclusive", WASM),
        (GPU, WASM, TODAY, None, WASM),
        (GPU, WASM, plan("wasm", rewrites=ROW), "faster", WASM),
        (
            plan("webgpu", rewrites=ROW),
            WASM,
            plan("wasm", rewrites=ROW),
            "faster",
            plan("wasm", rewrites=ROW),
        ),
        (GPU, WASM, plan("webgpu"), "faster", WASM),
        # Nothing was measured on WebAssembly, or nothing else is needed.
        (GPU, plan("webgpu"), None, None, None),
        (TODAY, WASM, None, None, None),
        (plan("webgpu", "wasm"), WASM, None, None, None),
        (plan(intra_op_num_threads=2), plan(), None, None, None),
    ],
)
def test_a_winner_on_a_gpu_is_followed_by_what_was_measured_on_webassembly(
    shipped: Plan, default: Plan, current: Plan | None, verdict: VerdictName | None, expected: Plan | None
) -> None:
    today = verdict and Comparison(
        statistic="p50", ratio=0.9, ratio_low=0.8, ratio_high=0.95, level=0.975, method="wilcoxon", n_blocks=9,
        smallest_effect_ratio=None, phase="confirm", verdict=verdict,
    )  # fmt: skip
    assert fallback(shipped, default=default, current=current, today=today or None) == expected
