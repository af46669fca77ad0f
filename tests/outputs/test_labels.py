"""Labels are compared one by one: another one is excused by a tie of its own scores alone, and is never identical."""

from __future__ import annotations

import numpy as np
import pytest

from facts import facts
from onnx_text import model_of, saved
from ortune.graph.model.open import open_model
from ortune.graph.outputs import output_comparisons
from ortune.outputs.labels import Scores
from ortune.show.output_words import outputs as words

RNG = np.random.default_rng(5)
N, CLASSES = 200, 5
HEAD = f"g (float[{N},8] x, float[8,{CLASSES}] w) => "
TIED = (3, 50, 120)
"""Rows whose two best scores tie."""


def some_scores():
    scores = RNG.standard_normal((N, CLASSES)).astype(np.float32)
    scores[:, 0] += 0.5
    for row in TIED:
        best, second = np.argsort(scores[row])[[-1, -2]]
        scores[row, second] = scores[row, best] * np.float32(1 - 1e-6)
    return scores


SCORES = some_scores()
LABELS = SCORES.argmax(axis=1)
SECOND = np.argsort(SCORES, axis=1)[:, -2]


@pytest.fixture
def labels(tmp_path, compare):
    """Compares labels that a graph makes, with its scores at hand."""

    def run(graph, old, new, scores=SCORES, **options):
        model = open_model(saved(tmp_path / "m.onnx", model_of(graph))).ir
        return compare(
            {"y": old},
            {"y": new},
            comparisons=output_comparisons(model),
            scores=lambda name: None if scores is None else Scores(values=scores.astype(np.float64)),
            **options,
        )

    return run


ARGMAX = f"{HEAD}(int64[{N}] y) {{ s = MatMul(x, w)\n y = ArgMax <axis: int = 1, keepdims: int = 0> (s) }}"


def another(rows, labels=LABELS):
    """The labels with the second best at some rows."""
    changed = labels.copy()
    changed[list(rows)] = SECOND[list(rows)]
    return changed


def test_labels_in_another_order_are_other_labels(labels):
    for other in (LABELS[::-1], np.roll(LABELS, 1), (LABELS + 1) % CLASSES):
        found = labels(ARGMAX, LABELS, other)
        assert not found.ok
        facts(found.what, "output 'y'", f"of {N} labels differ")
    assert labels(ARGMAX, LABELS, LABELS).ok


def test_a_label_may_be_another_where_its_two_best_scores_tie(labels):
    found = labels(ARGMAX, LABELS, another(TIED))
    (change,) = found.accepted
    assert found.ok and (change.reason, change.n_differing, change.n_elements) == ("tie", 3, N)
    facts(words(found), "3 of 200 labels of y differ", "within rounding of a tie")
    assert "identical" not in words(found)
    # One more than ties, the same labels without the scores, and a class that is not one of the best.
    more = labels(ARGMAX, LABELS, another((*TIED, 7)))
    assert not more.ok and not more.accepted
    facts(more.what, "4 of 200 labels differ", "3 of them within rounding of a tie")
    assert not labels(ARGMAX, LABELS, another(TIED), scores=None).ok
    third = LABELS.copy()
    third[3] = SCORES[3].argmin()
    assert not labels(ARGMAX, LABELS, third).ok


def test_never_all_labels_are_excused(labels):
    even = np.ones((N, CLASSES), np.float32)
    zeros, ones = np.zeros(N, np.int64), np.ones(N, np.int64)
    assert not labels(ARGMAX, zeros, ones, scores=even).ok
    half = np.where(np.arange(N) < N // 2, 1, 0)
    assert labels(ARGMAX, zeros, half, scores=even).ok
    single = ARGMAX.replace(str(N), "1")
    assert not labels(single, zeros[:1], ones[:1], scores=SCORES[:1]).ok
    tie = labels(single, zeros[:1], ones[:1], scores=even[:1])
    assert tie.ok
    facts(words(tie), "1 of 1 labels of y differs")


def test_a_coarser_tolerance_makes_more_ties(labels):
    near = SCORES.copy()
    near[9, SECOND[9]] = near[9, LABELS[9]] * 0.99
    assert not labels(ARGMAX, LABELS, another((9,)), scores=near).ok
    assert labels(ARGMAX, LABELS, another((9,)), scores=near, tolerance=0.01).ok


NAMES = np.array(["e", "d", "c", "b", "a"])
TABLE = np.array([[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0], [0, 0, 128.5]], np.float32)
AT = "s = MatMul(x, w)\n a = ArgMax <axis: int = 1, keepdims: int = 0> (s)\n"
TABLE_TEXT = ", ".join(f"{n:.1f}" for n in TABLE.ravel())
BEHIND = {
    "another type": (f"(float[{N}] y) {{ {AT} y = Cast <to: int = 1> (a) }}", lambda a: a.astype(np.float32)),
    "in rows": (
        f"(int64[20,10] y) <int64[2] t = {{20, 10}}> {{ {AT} y = Reshape(a, t) }}",
        lambda a: a.reshape(20, 10),
    ),
    "turned": (
        f"(int64[10,20] y) <int64[2] t = {{20, 10}}> {{ {AT} r = Reshape(a, t)\n y = Transpose(r) }}",
        lambda a: a.reshape(20, 10).T,
    ),
    "from the end": (
        f"(int64[{N}] y) <int64[1] m = {{-1}}, int64[1] e = {{-1000}}, int64[1] z = {{0}}> "
        f"{{ {AT} y = Slice(a, m, e, z, m) }}",
        lambda a: a[::-1],
    ),
    "shifted": (f"(int64[{N}] y) <int64 one = {{1}}> {{ {AT} y = Add(a, one) }}", lambda a: a + 1),
    "names": (
        f"(string[{N}] y) <string[5] t = {{\"e\", \"d\", \"c\", \"b\", \"a\"}}> {{ {AT} y = Gather(t, a) }}",
        lambda a: NAMES[a],
    ),
    "colours": (f"(float[{N},3] y) <float[5,3] t = {{{TABLE_TEXT}}}> {{ {AT} y = Gather(t, a) }}", lambda a: TABLE[a]),
}  # fmt: skip


@pytest.mark.parametrize("case", BEHIND)
def test_labels_are_followed_to_the_output(labels, case):
    graph, of = BEHIND[case]
    found = labels(HEAD + graph, of(LABELS), of(another(TIED)))
    assert found.ok and found.accepted, found.what
    for wrong in (another((7,)), np.roll(LABELS, 1), LABELS[::-1]):
        assert not labels(HEAD + graph, of(LABELS), of(wrong)).ok
    assert labels(HEAD + graph, of(LABELS), of(LABELS)).ok


def test_scores_that_do_not_explain_a_label_excuse_none(labels):
    """A label that is not the best by its own scores was decided otherwise."""
    worst = SCORES.argmin(axis=1)
    changed = worst.copy()
    changed[list(TIED)] = another(TIED)[list(TIED)]
    assert not labels(ARGMAX, worst, changed).ok


def test_a_mirrored_map_of_classes_is_another_map(labels):
    scores = RNG.standard_normal((1, 4, 8, 8)).astype(np.float32)
    best = scores.argmax(axis=1)
    graph = (
        "g (float[1,4,8,8] x, float[1,4,8,8] w) => (int64[1,8,8] y) "
        "{ s = Mul(x, w)\n y = ArgMax <axis: int = 1, keepdims: int = 0> (s) }"
    )
    assert not labels(graph, best, best[..., ::-1], scores=scores).ok
    at = np.unravel_index(17, best.shape)
    tie, changed = scores.copy(), best.copy()
    changed[at] = (best[at] + 1) % 4
    tie[(0, changed[at], *at[1:])] = tie[(0, best[at], *at[1:])]
    assert labels(graph, best, changed, scores=tie).ok
    assert not labels(graph, best, changed, scores=scores).ok
