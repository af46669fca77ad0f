"""Briefs of stored sessions, as the tests of a brief read them."""

from __future__ import annotations

import golden_tune
from golden_tune_parts import confirmed
from ortune.catalogue.spinning import spins
from ortune.records import Envelope, Guard
from ortune.verbs.report import brief
from ortune.verbs.report.result import Brief, StoredSession

SAFETY = {"intra_op_num_threads": "exact", "allow_spinning": "exact", "graph_optimization_level": "exact"}


def made(envelope: Envelope, load: float | None = None) -> Brief:
    found = brief.make(envelope, SAFETY, load, spins=spins)
    assert found is not None
    return found


def session(envelope: Envelope) -> StoredSession:
    return StoredSession(
        id="20260101-abcdef",
        at="2026-01-01T10:20:30.000+00:00",
        verb="tune",
        label="model.onnx",
        state="done",
        host=envelope.host,
        here=False,
        ortune="0.1.0",
        build="onnxruntime 1.31.1",
        document=envelope,
    )


def risks(found: Brief) -> dict[str, tuple[str, str]]:
    return {r.name: (r.level, r.what) for r in found.risks}


def with_guards(*guards: Guard) -> Envelope:
    return golden_tune.tuned(against_default=confirmed(0.9, 0.885, 0.917, guards=guards))
