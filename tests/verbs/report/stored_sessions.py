"""Sessions in a store, and ``ortune report`` on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import golden
import ortune
from ortune.records import Envelope
from ortune.store.db import Store
from ortune.verbs.report.result import ReportResult
from within import program

HEADER = {"model": "model.onnx", "host": golden.HOST}


def keep(store: Path, *documents: Envelope, kind: str = "result") -> list[str]:
    """Stores each document as a session of its own; their ids."""
    ids = []
    with Store(store) as opened:
        for document in documents:
            verb = document.schema.split("/")[1]
            log = opened.begin(verb, f"{verb} key", HEADER)
            log.add("split", {"plans": 3})
            log.add(kind, document)
            ids.append(log.id)
    return ids


def report_of(store: Path, *names: str, **options: Any) -> ReportResult:
    """What the verb gives of these sessions."""
    envelope = ortune.show(*names, store=store, **options)
    assert isinstance(envelope.result, ReportResult)
    return envelope.result


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a command line did, in the words of subprocess."""

    returncode: int
    stdout: str
    stderr: str


def command(store: Path, *words: str) -> Done:
    """What a command line does with a store."""
    code, out, err = program([*words, "--store", str(store)])
    return Done(returncode=code, stdout=out, stderr=err)


def run(store: Path, *words: str) -> Done:
    """What ``ortune report`` does."""
    return command(store, "report", *words)
