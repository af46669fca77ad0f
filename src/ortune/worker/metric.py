"""The user's own metric of a model's outputs: a function named on the command line."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, Dict

import numpy

from . import values
from .protocol import Stop


def measure(request: Dict[str, Any]) -> str:
    """Call ``function(outputs, inputs)`` for every case, and write the results as a list of numbers."""
    params = request["params"]
    module, _, name = params["function"].partition(":")
    sys.path.insert(0, params["folder"])
    function = getattr(importlib.import_module(module), name)
    numbers = []
    for case in json.loads(params["cases"]):
        outputs = values.read_outputs(case["outputs"])
        inputs, _ = values.read_feeds(case["inputs"])
        label = os.path.join(case["inputs"], "label.npy")
        if os.path.exists(label):
            inputs["label"] = numpy.load(label, allow_pickle=False)
        value = function(outputs, inputs)
        try:
            numbers.append(float(value))
        except (TypeError, ValueError) as error:
            raise Stop("run-error", "it returned a %s instead of a number" % type(value).__name__) from error
    with open(request["output"], "w", encoding="utf-8") as f:
        json.dump(numbers, f)
    return "Measured the outputs of %d inputs." % len(numbers)
