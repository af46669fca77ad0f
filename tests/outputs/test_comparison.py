"""Comparing folders of outputs, most of them written by the worker's own writer."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from facts import facts
from onnx_text import assemble
from ortune.errors import OrtuneError
from ortune.graph.outputs import OutputComparison
from ortune.outputs import files as output_files
from ortune.outputs.comparison import compare_outputs
from ortune.show import output_words as told
from ortune.worker.values import write_outputs

RNG = np.random.default_rng(0)


X = RNG.standard_normal((64, 33)).astype(np.float32)


def test_equal_outputs_are_equal(compare):
    result = compare({"y": X}, {"y": X})
    assert result.ok and result.relative_l2 == 0.0 == result.max_error and result.what == ""
    assert result.compared_as == "values"


def test_distance_is_that_of_the_formula(compare):
    other = X + 1e-5 * RNG.standard_normal(X.shape).astype(np.float32)
    result = compare({"y": X}, {"y": other})
    difference = other.astype(np.float64) - X
    assert result.ok
    assert result.relative_l2 == pytest.approx(np.linalg.norm(difference) / np.linalg.norm(X))
    assert result.max_error == pytest.approx(np.abs(difference).max() / np.abs(X).max())


def test_the_sentence_names_output_figure_and_limit(compare):
    result = compare({"fine": X, "y": X}, {"fine": X, "y": X * 1.01})
    assert not result.ok
    assert result.what == "output 'y' differs: relative L2 distance 0.01, limit 0.0001"
    large = RNG.standard_normal((400, 400)).astype(np.float32)
    spike = large.copy()
    spike[3, 3] += 0.005 * np.abs(large).max()
    result = compare({"y": large}, {"y": spike})
    assert result.relative_l2 < 1e-4
    facts(result.what, "output 'y'", "largest error", "0.005", "limit 0.001")


def test_the_sentence_names_the_figure_that_is_farthest_beyond_its_limit(compare):
    """Not the first output, and not the distance where one element is far away."""
    far = np.zeros(1000, np.float32)
    far[0] = 0.9
    near = np.ones(1000, np.float32)
    result = compare({"a": near, "b": near}, {"a": near * 1.02, "b": near + far}, tolerance=0.01)
    facts(result.what, "'b'", "largest error", "0.9", "limit 0.1")


def test_half_precision_has_wider_limits(compare):
    half = X.astype(np.float16)
    other = (X * 1.004).astype(np.float16)
    assert compare({"y": half}, {"y": other}).ok
    assert not compare({"y": X}, {"y": X * np.float32(1.004)}).ok
    assert not compare({"y": half}, {"y": (X * 1.02).astype(np.float16)}).ok
    assert compare({"y": X}, {"y": half}).ok  # the wider of the two


def bfloat16_bits(x):
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def test_bfloat16_travels_as_bits(compare):
    bits = bfloat16_bits(X)
    assert compare({"y": (bits, "bfloat16")}, {"y": (bits + np.uint16(1) * (bits % 7 == 0), "bfloat16")}).ok
    far = compare({"y": (bits, "bfloat16")}, {"y": (bfloat16_bits(X * 1.1), "bfloat16")})
    assert not far.ok
    assert far.relative_l2 == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("onnx_type", sorted(output_files.FLOAT8))
def test_float8_values_are_those_of_the_format(onnx_type):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    name = onnx_type.replace("float8", "float8_")
    bits = np.arange(256, dtype=np.uint8)
    expected = bits.view(getattr(ml_dtypes, name)).astype(np.float64)
    assert np.array_equal(output_files.decode(bits, onnx_type), expected, equal_nan=True)


def test_float8_allows_one_step(compare):
    bits = RNG.integers(0x20, 0x60, 500).astype(np.uint8)
    assert compare({"y": (bits, "float8e4m3fn")}, {"y": (bits + np.uint8(1), "float8e4m3fn")}).ok
    assert not compare({"y": (bits, "float8e4m3fn")}, {"y": (bits + np.uint8(4), "float8e4m3fn")}).ok


def test_nan_and_infinity_must_agree_in_place(compare):
    holes = X.copy()
    holes[0, :3] = np.nan, np.inf, -np.inf
    assert compare({"y": holes}, {"y": holes}).ok
    for at, value in (((0, 0), 0.0), ((0, 1), -np.inf), ((0, 2), 1.0), ((5, 5), np.nan)):
        other = holes.copy()
        other[at] = value
        result = compare({"y": holes}, {"y": other})
        assert not result.ok
        assert f"at element {at[0] * 33 + at[1]}" in result.what


def test_numbers_that_are_not_finite_are_counted(compare):
    """NaN equals NaN is no equality; -infinity among finite scores is a mask."""
    holes, masked, lost = X.copy(), X.copy(), np.full_like(X, np.nan)
    holes[0, :3] = np.nan, np.inf, -np.inf
    masked[:, 20:] = -np.inf
    clean = compare({"y": X}, {"y": X})
    assert (clean.nonfinite, clean.nonfinite_reference, clean.nonfinite_candidate) == ((), 0, 0)
    found = compare({"y": holes, "x": X}, {"y": holes, "x": X})
    assert found.ok and (found.nonfinite_reference, found.nonfinite_candidate) == (2, 2)
    (of_y,) = found.nonfinite
    assert (of_y.name, of_y.n_elements, of_y.nonfinite_reference, of_y.unusable_reference) == (
        "y",
        X.size,
        3,
        2,
    )
    facts(told.outputs(found), "finite elements", "on both sides", "2 elements")
    found = compare({"y": masked}, {"y": masked})
    assert found.ok and found.nonfinite[0].nonfinite_reference == 64 * 13 and found.nonfinite_reference == 0
    assert told.outputs(found) == "outputs identical"
    for all_of_it in (lost, np.full_like(X, -np.inf), np.full((64, 33), np.nan, np.float16)):
        found = compare({"y": all_of_it, "x": X}, {"y": all_of_it, "x": X})
        assert not found.ok and found.comparable and found.accepting_tolerance is None
        assert found.nonfinite_reference == X.size
        facts(found.what, "output 'y'", "no finite element", "nothing was compared")
        assert told.outputs(found) == found.what
        assert compare({"y": all_of_it, "x": X}, {"y": all_of_it, "x": X}, allow_nonfinite=True).ok
    found = compare({"y": X}, {"y": lost})
    assert not found.comparable and (found.nonfinite_reference, found.nonfinite_candidate) == (0, X.size)
    pairs = (X + 1j * np.where(X > 1, np.nan, X)).astype(np.complex64)
    found = compare({"y": (pairs, "complex64")}, {"y": (pairs, "complex64")})
    assert found.ok and found.nonfinite_reference == int((X > 1).sum())


def test_extreme_values(compare):
    huge = np.array([1e308, -1e308, 3.0])
    assert compare({"y": huge}, {"y": huge * (1 + 1e-9)}).ok
    assert not compare({"y": huge}, {"y": -huge}).ok
    zeros = np.zeros(9, dtype=np.float32)
    assert compare({"y": zeros}, {"y": zeros + np.float32(1e-10)}).ok
    assert not compare({"y": zeros}, {"y": zeros + np.float32(1e-6)}).ok
    tiny = np.full(9, 1e-8, dtype=np.float32)
    assert not compare({"y": tiny}, {"y": 2 * tiny}).ok
    empty = np.zeros((0, 4), dtype=np.float32)
    assert compare({"y": empty, "s": np.float32(2.0)}, {"y": empty, "s": np.float32(2.0)}).ok


def test_outputs_that_are_nearly_zero_tell_little(compare):
    """A detector gives nothing for noise: then another model's nothing is as good, and that is said."""
    loud, quiet = np.full(100, 0.5, np.float32), np.full(100, 2e-10, np.float32)
    found = compare({"y": (quiet, "float")}, {"y": (-quiet, "float")})
    assert found.ok and found.silent and found.cosine is None
    facts(told.outputs(found), "nearly zero", "--inputs")
    found = compare(
        {"y": (quiet, "float"), "z": (loud, "float")}, {"y": (-quiet, "float"), "z": (loud, "float")}
    )
    assert found.ok and not found.silent and [o.silent for o in found.outputs] == [True, False]


def test_the_users_tolerance_replaces_both_limits(compare):
    pair = {"y": X}, {"y": X * np.float32(1.01)}
    assert compare(*pair, tolerance=0.02).ok
    assert not compare(*pair, tolerance=0.005).ok
    assert not compare({"y": X}, {"y": X * np.float32(1 + 1e-5)}, tolerance=1e-6).ok


@pytest.mark.parametrize("error", [3e-3, 0.04, 0.3])
def test_a_difference_beyond_the_limit_has_its_size_and_what_accepts_it(compare, error):
    other = X + error * RNG.standard_normal(X.shape).astype(np.float32)
    result = compare({"y": X}, {"y": other})
    assert (result.ok, result.comparable) == (False, True)
    cosine = np.vdot(X, other) / np.linalg.norm(X) / np.linalg.norm(other)
    assert result.cosine == pytest.approx(cosine, abs=1e-6)
    accepting = result.accepting_tolerance
    assert result.relative_l2 < accepting < 11 * result.relative_l2
    assert compare({"y": X}, {"y": other}, tolerance=accepting).ok
    assert compare({"y": X}, {"y": other}, tolerance=result.relative_l2 / 2).tolerance


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        ({"y": X}, {"y": X[:, :32]}),
        ({"y": X}, {"y": np.where(X > 2, np.nan, X).astype(np.float32)}),
        ({"y": X}, {"y": X[::-1].copy()}),
        ({"y": X}, {"y": 2 * X}),
        ({"y": X}, {"z": X}),
        ({"y": np.arange(8)}, {"y": np.arange(8) + 1}),
        ({"y": X, "z": X}, {"y": X + 0.01, "z": X[:5]}),
    ],
    ids=["shape", "nan", "another", "scaled", "missing", "numbers", "one of two"],
)
def test_what_is_no_answer_to_the_same_question_cannot_be_compared(compare, reference, candidate):
    result = compare(reference, candidate)
    assert (result.ok, result.comparable, result.accepting_tolerance) == (False, False, None)
    assert "'y'" in result.what or "'z'" in result.what


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        ({"y": X, "label": np.arange(8)}, {"y": X + 0.003, "label": np.arange(8) + 1}),
        ({"label": np.arange(3)}, {"label": np.arange(3) + 1}),
        ({"label": np.arange(8)}, {"label": np.arange(8) // 2}),
    ],
)
def test_labels_that_flip_are_still_an_answer_which_no_tolerance_accepts(compare, reference, candidate):
    result = compare(reference, candidate)
    assert (result.ok, result.comparable, result.accepting_tolerance) == (False, True, None)


def test_integers_booleans_and_strings_must_be_equal(compare):
    for values, wrong in (
        (np.arange(9), np.arange(9) + (np.arange(9) == 4)),
        (np.arange(9) > 3, np.arange(9) > 4),
    ):
        assert compare({"y": values}, {"y": values}).ok
        result = compare({"y": values}, {"y": wrong})
        assert not result.ok and "at element 4" in result.what
    names = np.array(["cat", "dog"], dtype=object)
    other = np.array(["cat", "elephant"], dtype=object)
    assert compare({"y": (names, "string")}, {"y": (names, "string")}).ok
    result = compare({"y": (names, "string")}, {"y": (other, "string")})
    assert result.what == "output 'y' is 'elephant' at element 1, expected 'dog'"


def test_missing_outputs_shapes_and_types_are_named(compare):
    assert compare({"y": X, "z": X}, {"y": X}).what == "output 'z' is missing"
    assert compare({"y": X}, {"y": X, "more": X}).ok
    assert compare({"y": X}, {"y": X[:3]}).what == "output 'y' has shape [3, 33], not [64, 33]"
    assert "of type int64, not float" in compare({"y": X}, {"y": X.astype(np.int64)}).what
    assert compare({"y": np.arange(4)}, {"y": np.arange(4, dtype=np.int32)}).ok


def test_sequences_and_absent_optionals(compare):
    old = {"y": ([X, X[0]], "float"), "o": (None, "float")}
    assert compare(old, old).ok
    assert "2 elements" not in compare(old, old).what
    assert compare(old, {**old, "y": ([X], "float")}).what == "output 'y' has 1 elements, not 2"
    assert compare(old, {**old, "y": ([X, X[0] + 1], "float")}).what.startswith("output 'y[1]' differs")
    assert compare(old, {**old, "o": (X, "float")}).what == "output 'o' is a tensor, expected absent"


def test_maps_compare_key_by_key(compare):
    old = {"p": ([{"cat": 0.25, "dog": 0.75}, {"cat": 0.5, "dog": 0.5}], "float")}
    close = {"p": ([{"cat": 0.25000001, "dog": 0.75}, {"dog": 0.5, "cat": 0.5}], "float")}
    far = {"p": ([{"cat": 0.35, "dog": 0.65}, {"cat": 0.5, "dog": 0.5}], "float")}
    other = {"p": ([{"cat": 0.25, "cow": 0.75}, {"cat": 0.5, "dog": 0.5}], "float")}
    assert compare(old, close).ok
    assert "output 'p' differs" in compare(old, far).what
    assert compare(old, other).what == "output 'p' lacks the entry [0]['dog']"
    text = {"p": ([{"label": "cat"}], "string")}
    assert compare(text, text).ok
    assert "'dog' at [0]['label']" in compare(text, {"p": ([{"label": "dog"}], "string")}).what


def test_random_outputs_compare_by_moments(compare):
    a, b = RNG.standard_normal((2, 5000)).astype(np.float32)
    result = compare({"y": a}, {"y": b}, as_moments=True)
    assert result.ok and result.compared_as == "moments"
    assert not compare({"y": a}, {"y": b}).ok
    assert "mean" in compare({"y": a}, {"y": b + 1}, as_moments=True).what
    assert "standard deviation" in compare({"y": a}, {"y": b * 3}, as_moments=True).what
    assert "finite" in compare({"y": a}, {"y": np.where(b > 3, np.nan, b)}, as_moments=True).what
    assert compare({"y": a}, {"y": b[:4000]}, as_moments=True).ok  # a random length
    assert "expected about" in compare({"y": a}, {"y": b[:400]}, as_moments=True).what
    assert "has shape" in compare({"y": a}, {"y": b.reshape(50, 100)}, as_moments=True).what
    assert compare({"y": a[:3]}, {"y": b[:3] + 9}, as_moments=True).ok  # three values tell nothing


def test_moments_are_those_of_all_pieces(tmp_path, monkeypatch):
    from ortune.outputs.figures import moments

    values = RNG.exponential(2.0, 10_000)
    values[77] = math.inf
    monkeypatch.setattr(output_files, "CHUNK", 999)
    mean, deviation, bad = moments(values, "double")
    finite = np.delete(values, 77)
    assert (mean, deviation, bad) == (pytest.approx(finite.mean()), pytest.approx(finite.std()), 1)


def test_pieces_do_not_change_the_answer(compare, monkeypatch):
    other = X * np.float32(1.001)
    whole = compare({"y": X}, {"y": other})
    monkeypatch.setattr(output_files, "CHUNK", 100)
    parts = compare({"y": X}, {"y": other})
    assert parts.relative_l2 == pytest.approx(whole.relative_l2, rel=1e-12)
    assert parts.max_error == whole.max_error and parts.what == whole.what
    broken = X.copy()
    broken.ravel()[1234] = np.nan
    assert "at element 1234" in compare({"y": X}, {"y": broken}).what


def test_damaged_folders_give_one_clear_error(tmp_path):
    write_outputs(str(tmp_path / "a"), ["y"], ["tensor(float)"], [X])
    write_outputs(str(tmp_path / "b"), ["y"], ["tensor(float)"], [X])
    with pytest.raises(OrtuneError, match="cannot be read") as error:
        compare_outputs(tmp_path / "a", tmp_path / "missing")
    assert error.value.where.endswith("outputs.json") and error.value.do
    array = tmp_path / "b" / "0.npy"
    array.write_bytes(array.read_bytes()[:200])
    with pytest.raises(OrtuneError, match="cannot be read") as error:
        compare_outputs(tmp_path / "a", tmp_path / "b")
    assert error.value.where == str(array)
    for text in ("{", "[]", '{"version": 1}', '{"version": 1, "outputs": [{}]}'):
        (tmp_path / "b" / "outputs.json").write_text(text)
        with pytest.raises(OrtuneError, match="cannot be read"):
            compare_outputs(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "outputs.json").write_text(json.dumps({"version": 2, "outputs": []}))
    with pytest.raises(OrtuneError, match="version 2"):
        compare_outputs(tmp_path / "a", tmp_path / "b")


def test_pickles_are_never_read(tmp_path):
    for side in ("a", "b"):
        write_outputs(str(tmp_path / side), ["y"], ["tensor(float)"], [X])
    np.save(tmp_path / "b" / "0.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(OrtuneError, match="cannot be read"):
        compare_outputs(tmp_path / "a", tmp_path / "b")


def test_bad_options_give_one_clear_error(tmp_path):
    for tolerance in (0.0, -1.0, math.nan):
        with pytest.raises(OrtuneError, match="positive number"):
            compare_outputs(tmp_path, tmp_path, tolerance=tolerance)


def test_outputs_of_onnx_runtime_compare(tmp_path):
    """Two real sessions: the same model at two optimisation levels, and one with other weights."""
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    def model(scale):
        weight = numpy_helper.from_array(scale * weights, "w")
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Softmax", ["h"], ["p"]),
            helper.make_node("TopK", ["p", "k"], ["v", "i"]),
        ]
        k = numpy_helper.from_array(np.array([3], dtype=np.int64), "k")
        ports = [
            helper.make_tensor_value_info(n, t, None)
            for n, t in (("v", TensorProto.FLOAT), ("i", TensorProto.INT64))
        ]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16])
        made = assemble(nodes, [x], ports, [weight, k])
        return made.SerializeToString()

    weights = np.random.default_rng(3).standard_normal((16, 50)).astype(np.float32)
    feeds = {"x": np.random.default_rng(4).standard_normal((8, 16)).astype(np.float32)}
    for folder, scale, level in (("a", 1, 99), ("b", 1, 0), ("c", 1.3, 99)):
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel(level)
        session = ort.InferenceSession(model(np.float32(scale)), options, providers=["CPUExecutionProvider"])
        names, types = zip(*[(o.name, o.type) for o in session.get_outputs()], strict=True)
        write_outputs(str(tmp_path / folder), list(names), list(types), session.run(None, feeds))
    ways = {"i": OutputComparison(kind="indices", roles=("fixed", "free"))}
    same = compare_outputs(tmp_path / "a", tmp_path / "b", comparisons=ways)
    assert same.ok and same.relative_l2 < 1e-5
    other = compare_outputs(tmp_path / "a", tmp_path / "c", comparisons=ways)
    assert not other.ok and "output 'v'" in other.what
