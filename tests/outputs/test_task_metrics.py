"""The built-in metrics: on arrays whose answer is known by hand, and on what a real model gives."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from ortune.errors import UsageError
from ortune.outputs.metrics import METRICS, accuracy, ctc, perplexity, ranks
from ortune.outputs.metrics import boxes as detections
from ortune.outputs.metrics.metric import TaskCase
from ortune.outputs.task import MetricTask, worst
from ortune.records import TaskFigure
from ortune.verbs._shared.common import Metric
from ortune.verbs._shared.spelling import Option


def test_top1_accuracy_counts_rows_and_tells_a_lost_class() -> None:
    scores = np.asarray([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])
    labels = np.asarray([0, 1, 1, 0])
    assert accuracy.top1_accuracy(scores, labels) == 0.75
    assert accuracy.by_label(scores, labels) == {0: 1.0, 1: 0.5}


def test_boxes_count_by_overlap_and_score() -> None:
    boxes = np.asarray([[0.0, 0.0, 10.0, 10.0, 0.8], [20.0, 0.0, 30.0, 10.0, 0.6]])
    assert detections.box_agreement(boxes, boxes) == 1.0
    assert detections.box_agreement(boxes, boxes[:1]) == pytest.approx(2 / 3)
    moved = boxes + np.asarray([5.0, 0.0, 5.0, 0.0, 0.0])
    assert detections.box_iou(boxes, moved)[0, 0] == pytest.approx(1 / 3)
    quiet = boxes * np.asarray([1, 1, 1, 1, 0.5])
    assert detections.box_agreement(boxes, quiet) == pytest.approx(0.5)
    assert detections.box_agreement(boxes, boxes[:0]) == 0.0
    assert detections.box_agreement(boxes[:0], boxes[:0]) == 1.0


def test_regions_of_a_map_are_boxes() -> None:
    scores = np.zeros((20, 20))
    scores[2:6, 3:9], scores[10:14, 10:15], scores[18, 18] = 0.5, 0.9, 1.0  # the last is a speck
    found = detections.regions(scores)
    assert found.tolist() == [[3, 2, 9, 6, 0.5], [10, 10, 15, 14, pytest.approx(0.9)]]


def test_ctc_text_and_its_errors() -> None:
    steps = np.eye(4)[[0, 1, 1, 0, 1, 2, 2, 3, 0]]
    assert ctc.ctc_text(steps) == [1, 1, 2, 3]
    assert ctc.edit_distance([1, 2, 3], [1, 3]) == 1
    assert ctc.edit_distance([], [1, 2]) == 2
    assert ctc.edit_distance(b"kitten", b"sitting") == 3
    assert ctc.character_accuracy([[1, 2], [3]], [[1, 2], [4]]) == pytest.approx(2 / 3)
    assert ctc.character_accuracy([[9, 9, 9, 9]], [[1]]) == 0.0


def test_rank_correlation_sees_neighbours_and_no_scale() -> None:
    vectors = np.random.default_rng(0).standard_normal((12, 8))
    assert ranks.rank_correlation(vectors, 3.0 * vectors) == pytest.approx(1.0)
    other = np.random.default_rng(1).standard_normal((12, 8))
    assert abs(ranks.rank_correlation(vectors, other)) < 0.5


def test_perplexity_of_known_odds() -> None:
    logits = np.log(np.asarray([[[0.5, 0.25, 0.25], [0.125, 0.125, 0.75], [0.1, 0.2, 0.7]]]))
    assert perplexity.perplexity(logits, np.asarray([[0, 1, -1]])) == pytest.approx(
        1 / math.sqrt(0.5 * 0.125)
    )
    assert perplexity.perplexity(np.zeros((4, 10)), np.arange(4)) == pytest.approx(10.0)


Arrays = dict[str, np.ndarray]


def figures(
    name: str, base: Arrays, new: Arrays, label: np.ndarray | None = None, **inputs: np.ndarray
) -> tuple[TaskFigure, ...]:
    """Of one input."""
    return MetricTask(name, [TaskCase(base=base, inputs=inputs, label=label)]).figures([new])


def test_accuracy_with_and_without_labels() -> None:
    base = np.eye(3)[[0, 1, 2, 0, 1, 0, 0, 0]]
    new = np.eye(3)[[0, 1, 1, 0, 1, 0, 0, 0]]
    (whole, *slices) = figures("accuracy", {"y": base}, {"y": new})
    assert (whole.output, whole.base, whole.value) == ("y", 1.0, 0.875)
    assert [each.slice for each in slices] == ["class 0"]  # the others have too few rows
    right = np.asarray([0, 1, 1, 0, 1, 0, 0, 1])
    (whole, *_) = figures("accuracy", {"y": base}, {"y": new}, right)
    assert (whole.base, whole.value) == (0.75, 0.875)
    assert worst([whole]) is whole


def test_boxes_beside_scores_are_told_apart_by_class() -> None:
    boxes = np.asarray([[[0, 0, 8, 8], [10, 0, 18, 8], [20, 0, 28, 8]] * 6], dtype=np.float32)
    boxes = boxes + 100 * np.repeat(np.arange(6), 3)[None, :, None]
    scores = np.tile(np.asarray([[0.9, 0.0], [0.0, 0.9], [0.05, 0.1]], np.float32), (6, 1))[None]
    lost = scores.copy()
    lost[..., 1] = 0.0  # a column of scores that one scale over boxes and scores would lose
    same = {"boxes": boxes, "scores": scores}
    whole, *_ = figures("boxes", same, same)
    assert whole.value == 1.0
    whole, piece = figures("boxes", same, {"boxes": boxes, "scores": lost})
    assert whole.value == pytest.approx(2 / 3) and piece.slice == "class 1" and piece.value == 0.0
    # The same boxes by their middle and size.
    middles = np.concatenate(
        [(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], axis=-1
    )
    whole, *_ = figures("boxes", {"b": middles, "scores": scores}, {"b": middles, "scores": scores})
    assert whole.value == 1.0


def test_outputs_of_another_kind_are_refused_with_what_the_metric_takes() -> None:
    with pytest.raises(UsageError, match="map of scores"):
        figures("boxes", {"y": np.full((2, 5), 7.0)}, {"y": np.full((2, 5), 7.0)})


def test_perplexity_reads_the_tokens_of_an_input() -> None:
    tokens = np.asarray([[3, 1, 2, 0]])
    sure = 20.0 * np.eye(4)[[1, 2, 0, 0]][None]
    (whole,) = figures("perplexity", {"logits": sure}, {"logits": sure}, input_ids=tokens)
    assert whole.value == pytest.approx(1.0)
    (blind,) = figures("perplexity", {"logits": sure}, {"logits": 0 * sure}, input_ids=tokens)
    assert blind.value == pytest.approx(0.25)


def test_every_metric_is_in_the_help_and_on_the_pages() -> None:
    folder = Path(__file__).resolve().parents[2]
    texts = [(folder / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in ("compare", "quantize")]
    for text in (*texts, next(m.help for m in Metric.__metadata__ if isinstance(m, Option))):
        assert [name for name in METRICS if not re.search(rf"\b{name}\b", text)] == []


def test_padding_is_no_token_to_predict() -> None:
    """A model that is right about the text, and wrong about what fills the shorter row."""
    tokens, mask = np.asarray([[3, 1, 2, 2], [3, 1, 0, 0]]), np.asarray([[1, 1, 1, 1], [1, 1, 0, 0]])
    logits = 20.0 * np.eye(4)[[[1, 2, 2, 0], [1, 3, 3, 3]]]
    for past in (0, 3):
        whole_mask = np.concatenate([np.ones((2, past), np.int64), mask], axis=1)
        (whole,) = figures(
            "perplexity", {"y": logits}, {"y": logits}, input_ids=tokens, attention_mask=whole_mask
        )
        assert whole.value == pytest.approx(1.0)
    (padded,) = figures("perplexity", {"y": logits}, {"y": logits}, input_ids=tokens)
    assert padded.value < 0.1


def test_inputs_of_one_token_predict_nothing() -> None:
    """Steps with a past: what the next token is, no input tells, so no model is right by this metric."""
    step = {"input_ids": np.asarray([[3]])}
    with pytest.raises(UsageError, match="at least 2"):
        figures("perplexity", {"y": np.eye(4)[[[1]]]}, {"y": np.eye(4)[[[2]]]}, **step)
    # With a label, it does.
    (whole,) = figures(
        "perplexity", {"y": 20 * np.eye(4)[[[1]]]}, {"y": np.zeros((1, 1, 4))}, np.asarray([[1]]), **step
    )
    assert whole.value == pytest.approx(0.25)
    # Beside an input of several tokens, one of a single token counts for nothing.
    cases = [
        TaskCase(base={"y": 20.0 * np.eye(4)[[places]]}, inputs={"input_ids": np.asarray([tokens])})
        for places, tokens in (([1, 0], [3, 1]), ([2], [3]), ([2, 2], [0, 2]))
    ]
    assert MetricTask("perplexity", cases).n_right == 2


def test_the_base_is_measured_once_for_all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions of a map are found pixel by pixel: those of the base are not found again for each model."""
    pages = [np.zeros((1, 1, 20, 20), np.float32) for _ in range(3)]
    for page in pages:
        page[0, 0, 2:8, 3:9] = 0.9
    seen: list[int] = []
    regions = detections.regions

    def counted(scores: np.ndarray) -> np.ndarray:
        seen.append(1)
        return regions(scores)

    monkeypatch.setattr(detections, "regions", counted)
    of = MetricTask("boxes", [TaskCase(base={"maps": page}, inputs={}) for page in pages])
    of_base = len(seen)
    for number in range(1, 4):
        (whole, *_) = of.figures([{"maps": page} for page in pages])
        assert whole.value == whole.base == 1.0
        assert len(seen) == of_base + number * len(pages)
