"""Writes ``src/ortune/bundle/allowed.json``: what a bundle may set, for ``ortune.load``, which needs no other package.

python tools/make_allowed.py
"""

from __future__ import annotations

import json
from typing import Any

from ortune.bundle.shared import ALLOWED
from ortune.bundle.shared import as_text as text_of
from ortune.catalogue import knobs, providers
from ortune.catalogue.knobs import Knob


def allowed() -> str:
    """The whole file."""
    table = {
        "settings": {name: _setting(knob) for name, knob in knobs.all_knobs().items()},
        "providers": {p.name: sorted(p.options) for p in providers.providers_with(lambda p: p.target)},
    }
    return json.dumps(table, indent=1, sort_keys=True) + "\n"


def _setting(knob: Knob) -> dict[str, Any]:
    """Where a setting goes and what it can be, each value beside what its channel is given."""
    found: dict[str, Any] = {"channel": knob.channel, "key": knob.key, "provider": knob.provider}
    if knob.kind == "bool":
        return {**found, "values": {text_of(value): knob.applied(value).value for value in (False, True)}}
    if knob.kind == "choice":
        values = {value: knob.applied(value).value for value in knob.choices}
        return {**found, "values": values, **({"cache": True} if knob.is_cache else {})}
    if knob.kind == "text":
        return {**found, "pattern": knob.pattern}
    capped = bool(knob.threads) and knob.channel != "provider_option"
    return {**found, "minimum": knob.minimum, "threads": capped}


if __name__ == "__main__":
    ALLOWED.write_text(allowed(), encoding="utf-8")
