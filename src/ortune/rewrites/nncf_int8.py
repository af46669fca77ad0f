"""Quantizes weights and activations to 8 bits with NNCF, OpenVINO's own quantizer (QDQ).

What it is: the package ``nncf``, in an environment of its own that ``ortune runtime add nncf`` makes. NNCF runs the
    model on calibration inputs, places QuantizeLinear and DequantizeLinear as OpenVINO fuses them, and corrects
    biases.
Why it costs: a pair that the execution provider does not fuse is a conversion at each run. OpenVINO fuses other
    patterns than the CPU provider.
Evidence: the number types of the layers inside OpenVINO (``ortune profile``), the output error, and the time of the
    quantized model on each execution provider.
Fix and its safety: numerics: outputs change as with ``static-int8``. ``ortune quantize``, and ``ortune tune`` with a
    tolerance, try it if the environment exists, and check its model like any other.
Example: ``ortune quantize model.onnx --data samples``, which tries it, or ``--rewrite nncf-int8``
References: github.com/openvinotoolkit/nncf, "Post-training quantization".
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.records import Workload
from ortune.rewrites._affine import PRODUCTS
from ortune.rewrites._base import Proposed, Rewrite
from ortune.rewrites._marks import repair_saved
from ortune.rewrites._quantized import FAMILY, LEAST_BYTES, LEAVE, PREPARE, refuses, weight_bytes


def _refuses(model: ir.Model) -> tuple[str, ...]:
    return refuses(model, *PRODUCTS)


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if _refuses(model) or weight_bytes(model, *PRODUCTS) < LEAST_BYTES:
        return []
    return [({}, "NNCF is installed and places 8-bit conversions as OpenVINO fuses them")]


REWRITE = Rewrite(
    name="nncf-int8",
    summary="quantizes weights and activations to 8 bits with NNCF, OpenVINO's quantizer",
    safety="numerics",
    stage=8,
    family=FAMILY,
    params=(LEAVE,),
    calibrated=True,
    task="nncf",
    prepare=PREPARE,
    needs="nncf",
    refuses=_refuses,
    mends=repair_saved,
    proposes=_proposes,
)
