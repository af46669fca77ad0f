"""``manifest.json``: a bundle as a model package, which ONNX Runtime opens by itself from 1.32 on.

A package holds entries of the session's configuration, and options of providers that are plug-ins. Nothing else of a
plan can be written there (ONNX Runtime ignores a number of threads), so a bundle whose plan has more has no manifest:
loaded as a package it would not be what was measured. Nor has one that replays a captured graph, which needs buffers
that stay on the device, or whose model is hardware-bound, for a package does not look at the processor. The CPU is no
second variant: a missing provider must be an error.
"""

from __future__ import annotations

import json

from ortune.bundle.settings import providers
from ortune.bundle.shared import as_text
from ortune.catalogue.captured_graph import captures
from ortune.catalogue.providers import CPU, find
from ortune.records import BundleInfo

MANIFEST = "manifest.json"
COMPONENT = "model"
VARIANT = "tuned"
SCHEMA_VERSION = "1.0"


def manifest(info: BundleInfo, custom_ops: tuple[str, ...] = ()) -> str:
    """Return the text of the manifest; "" if a package cannot hold the plan."""
    entries = [s for s in info.applied if s.channel == "session_config"]
    others = [s for s in info.applied if s not in entries and s.channel != "provider_option"]
    if others or custom_ops or info.hardware_bound or info.plan.is_web or captures(info.plan, info.applied):
        return ""
    (name, options), *rest = providers(info.plan, info.applied)
    beside = [own for own, _ in rest if own != CPU.name]
    if beside or (options and not find(name).plugin):
        return ""
    ort: dict[str, object] = {"model_file": info.model}
    if entries:
        ort["session_options"] = {s.key: as_text(s.value) for s in entries}
    if options:
        ort["provider_options"] = options
    variant = {"variant_directory": ".", "ep": name, "executor_info": {"ort": ort}}
    package = {
        "schema_version": SCHEMA_VERSION,
        "components": {COMPONENT: {"variants": {VARIANT: variant}}},
    }
    return json.dumps(package, indent=1) + "\n"
