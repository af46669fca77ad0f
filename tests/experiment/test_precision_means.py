"""Which means are tried on a model in fewer bits."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from onnx_text import assemble
from ortune.experiment.precision_means import means
from ortune.records import Host, Plan

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


@pytest.mark.parametrize("features", [WITH_VNNI, ("avx2",)])
def test_channels_are_equalized_before_static_int8_where_they_differ(features: tuple[str, ...]) -> None:
    host = Host(
        system="Linux", machine="x86_64", cpu="a CPU", cores=2, logical=2, affinity=2, effective_cpus=2,
        memory_bytes=1 << 33, features=features, fingerprint="0",
    )  # fmt: skip
    alike, _ = means(convolutions(1.0), Plan(), host)
    unlike, _ = means(convolutions(256.0), Plan(), host)
    assert set(names(alike)) == {"static-int8"}
    assert names(unlike)[0] == "cross-layer-equalization static-int8"
    # The plain one is still tried, in case the ranges of weights mislead.
    assert "static-int8" in names(unlike)
    ids = [plan.id for plan in unlike]
    assert len(set(ids)) == len(ids)
