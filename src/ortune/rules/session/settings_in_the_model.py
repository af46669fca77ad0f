"""The model carries settings of its own that slow it down or do nothing.

What it is: metadata under "ort_config", which ONNX Runtime takes for a session's options where the environment has
    ORT_LOAD_CONFIG_FROM_MODEL=1.
Why it costs: profiling that was left on, or a lower optimisation level, slows every run; what is misspelt does
    nothing.
Evidence: the entry, read as JSON.
Fix and its safety: advice: take the entry out, or mend it.
Example: an entry with "session_options" and "enable_profiling" in it
References: ONNX Runtime documentation, "Model metadata"; microsoft/onnxruntime#20142.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import onnx
import onnx.parser

from ortune.records import Finding
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = "SES003"
TIER = "preview"

_ENTRY = "ort_config"
_OPTIONS = "session_options"
_KNOWN = frozenset(
    {
        "intra_op_num_threads",
        "inter_op_num_threads",
        "execution_mode",
        "graph_optimization_level",
        "enable_profiling",
    }
)
_ALL = 99


def _model(**settings: int) -> onnx.ModelProto:
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    model = onnx.parser.parse_model(head + " g (float[1] x) => (float[1] y) { y = Relu (x) }")
    onnx.helper.set_model_props(model, {_ENTRY: json.dumps({_OPTIONS: settings})})
    return model


def bad() -> onnx.ModelProto:
    """Profiling was left on."""
    return _model(enable_profiling=1)


def good() -> onnx.ModelProto:
    """A number of threads."""
    return _model(intra_op_num_threads=2)


def find(facts: Facts) -> Iterator[Finding]:
    """In the model's metadata."""
    text = facts.model.ir.metadata_props.get(_ENTRY) if facts.model else None
    if text is None:
        return
    wrong = _wrong(text)
    if wrong:
        yield Finding(
            code=CODE,
            what=f"the model's own settings ({_ENTRY}): {'; '.join(wrong)}",
            fix=f"mend or remove the metadata entry {_ENTRY}",
        )


def _wrong(text: str) -> list[str]:
    """What is wrong with the entry, part by part."""
    try:
        said = json.loads(text)
    except ValueError:
        return ["not JSON"]
    options = said.get(_OPTIONS) if isinstance(said, dict) else None
    if not isinstance(options, dict):
        return [f"no {_OPTIONS} in it"]
    unknown = sorted(key for key in options if key not in _KNOWN)
    level = options.get("graph_optimization_level", _ALL)
    wrong = [f"unknown {listed(unknown)}"] if unknown else []
    wrong += ["profiling is on"] if options.get("enable_profiling") == 1 else []
    wrong += [f"optimisation level {level}"] if isinstance(level, int) and level < _ALL else []
    return wrong
