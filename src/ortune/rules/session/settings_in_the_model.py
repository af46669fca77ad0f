"""Settings stored in the model slow it down or have no effect.

What it is: metadata under "ort_config", which ONNX Runtime reads as session options if the environment variable
    ORT_LOAD_CONFIG_FROM_MODEL is 1.
Why it costs: profiling left on, a lower optimisation level, or more threads than CPUs slow every run. Misspelt keys,
    and keys of run options or session config entries, have no effect. Inter-op threads have no effect in sequential
    mode.
Evidence: the entry, parsed as JSON.
Fix and its safety: advice: remove or correct the entry.
Example: an entry with "session_options" and "enable_profiling"
References: ONNX Runtime documentation, "Model metadata"; microsoft/onnxruntime#20142.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator

import onnx
import onnx.parser

from ortune.catalogue import knobs
from ortune.records import Finding
from ortune.rules._words import NAMED, plural, short
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
_PLACES = {
    "session_config": "in the session config entries",
    "run_config": "in the run options",
    "provider_option": "in the provider options",
}


def _model(**settings: int) -> onnx.ModelProto:
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    model = onnx.parser.parse_model(head + " g (float[1] x) => (float[1] y) { y = Relu (x) }")
    onnx.helper.set_model_props(model, {_ENTRY: json.dumps({_OPTIONS: settings})})
    return model


def bad() -> onnx.ModelProto:
    """Return a model with profiling enabled."""
    return _model(enable_profiling=1)


def good() -> onnx.ModelProto:
    """Return a model whose metadata sets a number of threads."""
    return _model(intra_op_num_threads=2)


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on invalid or harmful settings in the model's metadata."""
    text = facts.model.ir.metadata_props.get(_ENTRY) if facts.model else None
    if text is None:
        return
    wrong = _wrong(text, facts.host.effective_cpus if facts.host is not None else None)
    if wrong:
        yield Finding(
            code=CODE,
            what=f"settings stored in the model ({_ENTRY}): {'; '.join(wrong)}",
            fix=f"correct or remove the metadata entry {_ENTRY}",
        )


def _wrong(text: str, cpus: int | None) -> list[str]:
    """Return clauses with the errors in a metadata entry; ``cpus`` is the number of usable CPUs, if known."""
    try:
        said = json.loads(text)
    except ValueError:
        return ["not valid JSON"]
    options = said.get(_OPTIONS) if isinstance(said, dict) else None
    if not isinstance(options, dict):
        return [f"{_OPTIONS} is missing"]
    unknown = sorted(_unknown(str(key)) for key in options if key not in _KNOWN)
    level = options.get("graph_optimization_level", _ALL)
    wrong = [f"unknown keys: {', '.join(unknown[:NAMED])}"] if unknown else []
    wrong += ["profiling is on"] if options.get("enable_profiling") == 1 else []
    wrong += [f"optimisation level {level}"] if isinstance(level, int) and level < _ALL else []
    threads = options.get("intra_op_num_threads", 0)
    if isinstance(threads, int) and cpus is not None and threads > cpus:
        wrong.append(f"{threads} threads, but only {cpus} available {plural(cpus, 'CPU')}")
    between = options.get("inter_op_num_threads", 0)
    if isinstance(between, int) and between > 1 and options.get("execution_mode", 0) == 0:
        wrong.append("inter-op threads without parallel execution")
    return wrong


def _unknown(key: str) -> str:
    """Return a clause on a key that ONNX Runtime does not read in model metadata, with the probably intended key."""
    places = {
        knob.key: _PLACES[knob.channel] for knob in knobs.all_knobs().values() if knob.channel in _PLACES
    }
    if key in places:
        return f"{key} (belongs {places[key]})"
    near = difflib.get_close_matches(key, _KNOWN, n=1)
    return f"{short(key)} (did you mean {near[0]}?)" if near else short(key)
