"""The metric of basic-pitch for benchmarks/precision.py: how well the notes of a clip are found.

``ortune quantize --metric precision_notes:f1`` calls it with the outputs and the inputs of one clip; the true notes are
the array ``label``, frames x pitches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

NOTES, LEAST = "StatefulPartitionedCall:1", 0.3
"""The output with the probability of each pitch in each frame, and the program's own threshold."""


def f1(outputs: dict[str, Any], inputs: dict[str, Any]) -> float:
    """Return the F1 score of the notes that are found in the frames of a clip."""
    return score(outputs[NOTES][0], inputs["label"].astype(bool))


def score(probabilities: np.ndarray, true: np.ndarray) -> float:
    """Return the F1 score of probabilities against true notes, of any equal shape."""
    found = probabilities >= LEAST
    return float(2 * (found & true).sum() / max(1, found.sum() + true.sum()))
