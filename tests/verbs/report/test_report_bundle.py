"""``ortune report NAME.ortune``: a bundle as tune writes it is told by the session that made it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import parser

import golden
import golden_tune
import ortune
from ortune.bundle.write import write_bundle
from ortune.inputs.feed_files import write_feeds
from ortune.records import Case, Envelope, Plan, RewriteSpec, Workload
from ortune.store.db import Store
from ortune.verbs._shared.bundling import delivery
from ortune.verbs.report.result import ReportResult, StoredSession

PLANS = {
    "default": golden_tune.default_best(),
    "rewritten": golden_tune.tuned(winner=Plan(rewrites=(RewriteSpec(name="initializers-out-of-inputs"),))),
}


def small_model(path: Path, width: int) -> Path:
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> small (float[{width}] x) => (float[{width}] y) {{ y = Relu(x) }}'
    )
    onnx.save(model, path)
    return path


def delivered(folder: Path, document: Envelope, *, rewritten: bool) -> tuple[str, Path, Envelope]:
    """A stored session with the bundle that it left: its id, the folder and its document."""
    write_feeds(folder / "feeds", {"x": np.ones(4, np.float32)})
    with Store(folder / "store") as store:
        log = store.begin("tune", "tune key", {"model": "small.onnx", "host": golden.HOST})
        result = msgspec.structs.replace(document.result, session=log.id)
        path = write_bundle(
            delivery(result),
            Workload(cases=(Case(name="only", inputs=()),)),
            golden.HOST,
            model=small_model(folder / "small.onnx", 4),
            rewritten=small_model(folder / "other.onnx", 5) if rewritten else None,
            feeds=folder / "feeds",
            outputs=None,
            report_html="",
            directory=folder,
            force=False,
        )
        log.add("result", msgspec.structs.replace(document, result=result))
    return log.id, path, document


def told(store: Path, path: Path) -> StoredSession:
    result = ortune.show(str(path), store=store).result
    assert isinstance(result, ReportResult)
    return result.sessions[0]


@pytest.mark.parametrize("name", PLANS)
def test_a_bundle_names_the_session_that_made_it(tmp_path: Path, name: str) -> None:
    session, path, document = delivered(tmp_path, PLANS[name], rewritten=name == "rewritten")
    found = told(tmp_path / "store", path)
    assert (found.id, found.trouble) == (session, "")
    assert found.bundle is not None and found.document.result.winner == document.result.winner
    elsewhere = told(tmp_path / "none", path)
    assert elsewhere.id == "" and f"{session}, is not in" in elsewhere.trouble


def test_a_session_that_cannot_be_read_is_not_said_to_be_missing(tmp_path: Path) -> None:
    newer = msgspec.structs.replace(golden_tune.tuned(), schema="ortune/tune/2")
    session, path, _ = delivered(tmp_path, newer, rewritten=False)
    found = told(tmp_path / "store", path)
    assert found.id == "" and session in found.trouble and "no readable result" in found.trouble
