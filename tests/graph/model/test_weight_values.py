"""Weights that stay in their files: read a part at a time, and searched for numbers that are not finite."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from onnx_text import model_of
from ortune.errors import ModelError
from ortune.graph.model.open import open_model
from ortune.graph.model.tensors import FileTensor, not_finite, pieces

TYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
LARGE = 300_000  # elements: of all types more than is read at once


def in_a_file(folder: Path, *arrays: np.ndarray) -> list[FileTensor]:
    """The arrays as weights of a model that was opened."""
    proto = model_of("g (float[1] x) => (float[1] y) { y = Relu (x) }")
    proto.graph.initializer.extend(numpy_helper.from_array(a, f"w{n}") for n, a in enumerate(arrays))
    onnx.save(proto, folder / "m.onnx")
    values = open_model(folder / "m.onnx").ir.graph.initializers
    tensors = [values[f"w{n}"].const_value for n in range(len(arrays))]
    return [tensor for tensor in tensors if isinstance(tensor, FileTensor)]


def finite(dtype: type, n: int) -> np.ndarray:
    """Numbers up to the ends of a type: the largest, the least above zero, both zeros, all of both signs."""
    info = ml_dtypes.finfo(dtype)
    ends = [info.max, info.smallest_subnormal, info.tiny, 0.0, 1.0]
    return np.resize(np.array([*ends, *(-np.array(ends, np.float64))], np.float64), n).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [600, LARGE])
def test_finite_numbers_are_all_finite(tmp_path: Path, dtype: type, n: int) -> None:
    numbers = finite(dtype, n)
    (tensor,) = in_a_file(tmp_path, numbers)
    assert not_finite(tensor) == not_finite(ir.tensor(numbers)) == (0, 0)
    assert not_finite(ir.tensor(-np.abs(numbers))) == not_finite(ir.tensor(numbers[:0])) == (0, 0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("number", "counts"),
    [(np.nan, (1, 0)), (-np.nan, (1, 0)), (np.inf, (0, 1)), (-np.inf, (0, 1))],
)
@pytest.mark.parametrize("place", [0, 131_071, 131_072, LARGE - 1])
def test_each_number_that_is_not_finite_is_counted(
    tmp_path: Path, dtype: type, number: float, counts: tuple[int, int], place: int
) -> None:
    numbers = finite(dtype, LARGE)
    numbers[place] = number
    (tensor,) = in_a_file(tmp_path, numbers)
    assert not_finite(tensor) == not_finite(ir.tensor(numbers)) == counts
    numbers[(place + 1) % LARGE] = np.inf
    assert not_finite(ir.tensor(numbers)) == (counts[0], counts[1] + 1)


def test_two_weights_of_a_file_are_read_in_turn(tmp_path: Path) -> None:
    numbers = np.arange(LARGE, dtype=np.float32)
    one, other = in_a_file(tmp_path, numbers, -numbers)
    place = 0
    for ahead, back in zip(pieces(one), pieces(other), strict=True):
        assert (ahead == -back).all() and ahead[0] == place
        place += ahead.size
    assert place == LARGE == one.size == other.size


def test_a_file_is_closed_with_the_last_weight_in_it(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        (tensor,) = in_a_file(tmp_path, np.ones(LARGE, np.float32))
        assert sum(part.size for part in pieces(tensor)) == LARGE
        gc.collect()
        file = tensor.file._file
        assert file is not None and not file.closed
        del tensor
        gc.collect()
        assert file.closed


def test_a_file_that_is_cut_off_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    (tensor,) = in_a_file(tmp_path, np.ones(LARGE, np.float32))
    parts = pieces(tensor)
    next(parts)
    with (tmp_path / "m.onnx").open("r+b") as file:
        file.truncate(300_000)
    with pytest.raises(ModelError, match="truncated while it was read"):
        list(parts)
