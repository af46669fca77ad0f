"""Which means are tried on a model in fewer bits."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from onnx_text import assemble, model_of
from ortune.records import Host, Plan, RewriteSpec
from ortune.verbs.quantize.methods import methods_worth_testing

WITH_VNNI = ("avx2", "avx512_vnni")


def convolutions(unlike: float) -> ir.Model:
    """Two convolutions; channels between them are up to so many times larger than others."""
    rng = np.random.default_rng(0)
    scales = np.where(np.arange(32) % 2, unlike, 1.0).astype(np.float32)
    first = rng.standard_normal((32, 16, 3, 3)).astype(np.float32) * scales[:, None, None, None]
    second = rng.standard_normal((32, 32, 3, 3)).astype(np.float32) / scales[None, :, None, None]
    return ir.from_proto(
        assemble(
            [
                helper.make_node("Conv", ["x", "w0"], ["a"]),
                helper.make_node("Relu", ["a"], ["b"]),
                helper.make_node("Conv", ["b", "w1"], ["y"]),
            ],
            "float[1,16,9,9] x",
            "float[1,32,5,5] y",
            {"w0": first, "w1": second},
        )
    )


def names(plans: list[Plan]) -> list[str]:
    return [" ".join(spec.name for spec in plan.rewrites) for plan in plans if "static" in plan.describe()]


def host(*features: str) -> Host:
    return Host(
        system="Linux", machine="x86_64", cpu="a CPU", cores=2, logical=2, affinity=2, effective_cpus=2,
        memory_bytes=1 << 33, features=features, fingerprint="0",
    )  # fmt: skip


@pytest.mark.parametrize("features", [WITH_VNNI, ("avx2",)])
def test_channels_are_equalized_before_static_int8_where_they_differ(features: tuple[str, ...]) -> None:
    alike, _ = methods_worth_testing(convolutions(1.0), Plan(), host(*features))
    unlike, _ = methods_worth_testing(convolutions(256.0), Plan(), host(*features))
    assert set(names(alike)) == {"static-int8"}
    assert names(unlike)[0] == "cross-layer-equalization static-int8"
    # The plain one is still tried, in case the ranges of weights mislead.
    assert "static-int8" in names(unlike)
    ids = [plan.id for plan in unlike]
    assert len(set(ids)) == len(ids)


def products() -> ir.Model:
    """Two products with an activation between them, behind a normalization."""
    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.standard_normal((512, 512)).astype(np.float32) for i in range(2)}
    text = """products (float[n,512] x) => (float[n,512] y) {
        a = LayerNormalization (x, ones)
        b = MatMul (a, w0)
        c = Relu (b)
        y = MatMul (c, w1)
    }"""
    return ir.from_proto(model_of(text, weights={**weights, "ones": np.ones(512, np.float32)}))


def words(spec: RewriteSpec) -> str:
    """A rewrite as it is written on the command line."""
    params = ",".join(f"{name}={value}" for name, value in spec.params.items())
    return f"{spec.name}:{params}" if params else spec.name


def last(plans: list[Plan]) -> list[str]:
    """What quantizes, in the order of the trials."""
    texts = [(len(plan.rewrites), words(plan.rewrites[-1])) for plan in plans]
    return [f"smooth {text}" if count > 1 else text for count, text in texts]


def test_on_a_processor_that_saturates_7_bits_come_first_and_each_kind_before_a_second_of_any() -> None:
    plans, _ = methods_worth_testing(products(), Plan(), host("avx2"))
    order = last(plans)
    first = ["dynamic-int8:range=7,scales=channel", "static-int8:range=7", "weight-only-bits"]
    assert order[:3] == first
    # Then what else may differ in speed, and what is nearer at the same speed.
    assert order[3:5] == ["static-int8:operators=products,range=7", "weight-only-bits:bits=4"]
    assert "dynamic-int8:scales=channel,weights=u8" in order
    assert "smooth dynamic-int8:range=7,scales=channel" in order
    assert "static-int8:bias=corrected,range=7" in order
    assert "static-int8:bias=corrected,operators=products,range=7" in order


def test_weights_of_4_bits_are_tried_with_other_blocks_and_products() -> None:
    order = last(methods_worth_testing(products(), Plan(), host(*WITH_VNNI))[0])
    plain = [order.index(text) for text in ("weight-only-bits", "weight-only-bits:bits=4")]
    for bits in ("", "bits=4,"):
        for last_param in ("products=float32", "block=128"):
            text = f"weight-only-bits:{','.join(sorted([*bits.split(',')[:-1], last_param]))}"
            assert order.index(text) > max(plain), order


@pytest.mark.parametrize("features", [WITH_VNNI, ("avx2",)])
def test_the_single_settings_of_the_quantizers_are_always_among_the_methods(
    features: tuple[str, ...],
) -> None:
    for model in (products(), convolutions(256.0)):
        order = {
            words(plan.rewrites[-1])
            for plan in methods_worth_testing(model, Plan(), host(*features))[0]
            if len(plan.rewrites) == 1
        }
        assert {"static-int8", "static-int8:scales=tensor", "static-int8:activations=s8"} <= order
    assert "dynamic-int8:scales=channel" in last(
        methods_worth_testing(products(), Plan(), host(*features))[0]
    )


def test_ranges_without_outliers_are_tried_for_products_alone() -> None:
    order = last(methods_worth_testing(products(), Plan(), host(*WITH_VNNI))[0])
    clipped = [text for text in order if "calibration" in text]
    assert clipped == ["static-int8:calibration=percentile,operators=products"]


def test_on_a_processor_with_vnni_nothing_is_cut_to_7_bits() -> None:
    plans, _ = methods_worth_testing(products(), Plan(), host(*WITH_VNNI))
    assert last(plans)[:2] == ["dynamic-int8:scales=channel", "static-int8"]
    assert not any("range" in text or "u8" in text for text in last(plans))
