"""Batches in parts: the outputs are those of one run, and padding that rows share is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from onnx_text import model_of, saved
from ortune.worker.rows import InRows

POOLED = """
    g (int64[batch,seq] ids, int64[batch,seq] attention_mask, float[2,batch,4] state) =>
      (float[batch] y, float[2,batch,4] next) {
        m = Cast <to = 1> (attention_mask)  i = Cast <to = 1> (ids)  p = Mul (i, m)
        one = Constant <value = int64[1] {1}> ()
        y = ReduceSum <keepdims = 0> (p, one)  next = Relu (state)
    }
"""


def session_of(folder: Path, text: str) -> ort.InferenceSession:
    return ort.InferenceSession(saved(folder / "m.onnx", model_of(text)), providers=["CPUExecutionProvider"])


def test_rows_of_about_equal_length_run_together_without_their_padding(tmp_path: Path) -> None:
    session, rng = session_of(tmp_path, POOLED), np.random.default_rng(0)
    lengths = np.array([3, 9, 1, 8, 2, 0, 7])
    feeds: dict[str, Any] = {
        "ids": rng.integers(1, 100, (7, 10)),
        "attention_mask": (np.arange(10) < lengths[:, None]).astype(np.int64),
        "state": rng.standard_normal((2, 7, 4)).astype(np.float32),
    }
    shapes: list[tuple[int, ...]] = []

    def call(part: dict[str, Any]) -> Any:
        shapes.append(part["ids"].shape)
        assert part["state"].shape == (2, part["ids"].shape[0], 4)
        return session.run(None, part)

    in_rows = InRows(session, 3)
    for expected, found in zip(session.run(None, feeds), in_rows.run(call, feeds), strict=True):
        np.testing.assert_array_equal(expected, found)
    assert shapes == [(3, 9), (3, 3), (1, 1)] and in_rows.split


def test_an_output_of_the_length_keeps_all_padding_and_the_order(tmp_path: Path) -> None:
    text = """g (float[batch,seq] x, float[batch,seq] mask) => (float[batch,seq] y) { y = Add (x, mask) }"""
    session = session_of(tmp_path, text)
    feeds = {"x": np.arange(20, dtype=np.float32).reshape(5, 4), "mask": np.eye(5, 4, dtype=np.float32)}
    in_rows = InRows(session, 2)
    (found,) = in_rows.run(lambda part: session.run(None, part), feeds)
    np.testing.assert_array_equal(found, feeds["x"] + feeds["mask"])
    few = InRows(session, 5)
    assert len(few.run(lambda part: session.run(None, part), feeds)) == 1 and not few.split


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }",
        "g (float[batch,3] x) => (float y) { y = ReduceSum <keepdims = 0> (x) }",
    ],
)
def test_a_model_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="no row"):
        InRows(session_of(tmp_path, text), 8)
