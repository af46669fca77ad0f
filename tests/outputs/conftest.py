"""Outputs that a test writes as files of two sides, compared as a session compares them."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from ortune.outputs.comparison import compare_outputs
from ortune.records import OutputDifference
from ortune.worker.values import write_outputs


def onnx_type(dtype: np.dtype) -> str:
    """The name that ONNX has for the type of an array."""
    names = {"float32": "float", "float64": "double"}
    return "string" if dtype.kind == "U" else names.get(str(dtype), str(dtype))


@pytest.fixture
def compare(tmp_path):
    """Writes two sets of outputs (a dict by name; a pair is value and ONNX type) and compares them."""

    def run(reference, candidate, **options):
        for side, outputs in (("a", reference), ("b", candidate)):
            values = [v[0] if isinstance(v, tuple) else v for v in outputs.values()]
            types = [
                v[1] if isinstance(v, tuple) else onnx_type(np.asarray(v).dtype) for v in outputs.values()
            ]
            write_outputs(str(tmp_path / side), list(outputs), [f"tensor({t})" for t in types], values)
        result = compare_outputs(tmp_path / "a", tmp_path / "b", **options)
        # A difference must survive the JSON of reports and stores.
        assert msgspec.json.decode(msgspec.json.encode(result), type=OutputDifference) == result
        return result

    return run
