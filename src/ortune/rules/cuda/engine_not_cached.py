"""TensorRT rebuilds its engine at every start.

What it is: a TensorRT session without trt_engine_cache_enable.
Why it costs: building an engine takes seconds to minutes, and is repeated for each new session.
Evidence: the target and the provider options.
Fix and its safety: advice: set trt_engine_cache_enable, with a cache folder owned by the program, and
    trt_timing_cache_enable.
Example: ``{"trt_engine_cache_enable": "1", "trt_timing_cache_enable": "1"}``
References: microsoft/onnxruntime#3633, #18272, #22822.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import TENSORRT
from ortune.records import Finding
from ortune.rules._providers import options_of
from ortune.rules.facts import Facts

CODE = "CUD002"
TIER = "preview"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if TensorRT runs the model without the engine cache."""
    if facts.model is None or facts.target != TENSORRT.target:
        return
    kept = options_of(facts, TENSORRT.name).get("trt_engine_cache_enable", "0")
    if kept.lower() in ("0", "false"):
        yield Finding(
            code=CODE,
            what="TensorRT rebuilds its engine for every new session",
            fix="set the provider options trt_engine_cache_enable=1 and trt_timing_cache_enable=1",
        )
