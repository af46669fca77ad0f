"""``manifest.json``: a bundle as a model package, which ONNX Runtime opens by itself from 1.32 on.

A package can contain entries of the session configuration, session options that ONNX Runtime also reads as such entries
(numbers of threads, arena, memory pattern, execution mode, level), and options of plug-in providers. A bundle has no
manifest if its plan needs anything else, since the package would then differ from the measured configuration; if it
replays a captured graph, which needs device buffers; or if its model is hardware-bound, since a package does not check
the processor. There is no second variant for the CPU: a missing provider must be an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ortune.bundle.settings import measured, providers
from ortune.bundle.shared import as_text
from ortune.catalogue import knobs
from ortune.catalogue.captured_graph import captures
from ortune.catalogue.providers import CPU, find
from ortune.records import Applied, BundleInfo

MANIFEST = "manifest.json"
COMPONENT = "model"
VARIANT = "tuned"
SCHEMA_VERSION = "1.0"


def manifest(info: BundleInfo, custom_ops: tuple[str, ...] = ()) -> str:
    """Return the text of the manifest; "" if a package cannot contain the plan."""
    entries = {key: text for s in measured(info.applied) for key, text in _entry(s)}
    others = [s for s in info.applied if s.channel != "provider_option" and not any(_entry(s))]
    if others or custom_ops or info.hardware_bound or info.plan.is_web or captures(info.plan, info.applied):
        return ""
    (name, options), *rest = providers(info.plan, info.applied)
    beside = [own for own, _ in rest if own != CPU.name]
    if beside or (options and not find(name).plugin):
        return ""
    ort: dict[str, object] = {"model_file": info.model}
    if entries:
        ort["session_options"] = entries
    if options:
        ort["provider_options"] = options
    variant = {"variant_directory": ".", "ep": name, "executor_info": {"ort": ort}}
    package = {
        "schema_version": SCHEMA_VERSION,
        "components": {COMPONENT: {"variants": {VARIANT: variant}}},
    }
    return json.dumps(package, indent=1) + "\n"


def _entry(setting: Applied) -> Iterator[tuple[str, str]]:
    """Yield the entry of a package for a setting, if there is one."""
    text = as_text(setting.value)
    if setting.channel == "session_config":
        yield setting.key, text
    elif knobs.find(setting.knob).packaged:
        yield f"session.{setting.key}", text.lower().removeprefix("ort_")
