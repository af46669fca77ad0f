"""Executions over time, thread by thread: the one section that needs JavaScript."""

from __future__ import annotations

import base64
import json

from markupsafe import Markup

from ortune.printable import visible
from ortune.records import Timeline
from ortune.report.html.profile import Given

ORDER = 100
TITLE = "Timeline"
NOTE = (
    "What ran when. Wheel or + and \u2212: zoom; drag or arrow keys: move; double click: zoom to what is there. What "
    "is narrower than a pixel is drawn as one, the fainter the less of it is busy."
)


def content(given: Given) -> dict[str, object] | None:
    """The data for the script; why there is none; or None."""
    found = given.timeline
    if found is None or not found.tracks:
        return {"absent": given.no_timeline} if given.no_timeline else None
    shown = sum(track.count for track in found.tracks)
    left_out = f", {found.n_left_out:,} left out" if found.n_left_out else ""
    return {
        "absent": "",
        "info": _data(found),
        "start": base64.b64encode(found.start_ticks).decode(),
        "duration": base64.b64encode(found.duration_ticks).decode(),
        "codes": base64.b64encode(found.name_codes).decode(),
        "about": f"{shown:,} executions{f' ({found.note})' if found.note else ''}{left_out}",
    }


def _data(found: Timeline) -> Markup:
    """Everything but the columns, as JSON that can stand in a page: no sign in it ends or begins an element."""
    text = json.dumps(
        {
            "tick": found.tick_ns,
            "names": [visible(name) for name in found.names],
            "ops": [visible(op) for op in found.op_types],
            "tracks": [[visible(t.lane), t.depth, t.first, t.count] for t in found.tracks],
        },
        separators=(",", ":"),
    )
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
