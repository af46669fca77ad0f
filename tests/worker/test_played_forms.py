"""The form in which a replay passes inputs: lists, arrays that are not contiguous, and batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from ortune.inputs.feed_files import write_feeds
from ortune.worker.replay import Player


@pytest.fixture
def feeds(tmp_path: Path) -> Path:
    write_feeds(tmp_path, {"x": np.arange(6, dtype=np.float32).reshape(1, 2, 3), "n": np.array([4])})
    return tmp_path


def passed(feeds: Path, **form: object) -> dict[str, object]:
    feed = {"path": str(feeds), "lists": (), "strided": False, "batch": 1, **form}
    player = Player(ort, {"seed": 0, "steps": [], "sessions": [], "feeds": [feed]})
    found: dict[str, object] = player.feeds[0]
    return found


def test_inputs_are_arrays_lists_or_strided_arrays_of_equal_values(feeds: Path) -> None:
    plain = passed(feeds)["x"]
    assert isinstance(plain, np.ndarray) and plain.flags.c_contiguous
    assert passed(feeds, lists=("x",))["x"] == plain.tolist()
    strided = passed(feeds, strided=True)["x"]
    assert isinstance(strided, np.ndarray) and not strided.flags.c_contiguous
    np.testing.assert_array_equal(strided, plain)


def test_a_batch_repeats_every_input(feeds: Path) -> None:
    batch = passed(feeds, batch=3)
    assert [np.shape(value) for value in batch.values()] == [(3, 2, 3), (3,)]
    np.testing.assert_array_equal(batch["n"], [4, 4, 4])
