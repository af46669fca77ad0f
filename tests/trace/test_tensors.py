"""Types and shapes out of traces: sizes, and nothing out of what is damaged."""

from __future__ import annotations

import pytest

from ortune.trace.categories import category
from ortune.trace.tensors import all_bytes, elements, n_bytes, tensors

DEEP = "[" * 900 + "]" * 900


def test_sizes() -> None:
    text = '[{"float":[1,3,4]},{"int64":[]},{"bool":[0,5]}]'
    assert tensors(text) == [("float", (1, 3, 4)), ("int64", ()), ("bool", (0, 5))]
    assert all_bytes(text) == 48 + 8
    assert (n_bytes("float16", (3,)), n_bytes("string", (3,)), n_bytes("", ())) == (6, None, None)
    assert (tensors("[]"), all_bytes("[]"), tensors("")) == ([], 0, None)


@pytest.mark.parametrize(
    "text",
    [
        '[{"float":["x"]}]', '[{"float":["x","y"]}]', '[{"float":[-1]}]', '[{"float":[1.5]}]', '[{"float":3}]',
        '[{"float":[4611686018427387904,4611686018427387904]}]', f'[{{"float":[{"9" * 400}]}}]', '[{"float":null}]',
        '[{"float":[true]}]', "{}", "null", '"x"', "[[1]]", "[{", DEEP, f'[{{"float":{DEEP}}}]',
        f'[{{"float":[{"1," * 200}1]}}]',
    ],
)  # fmt: skip
def test_what_is_no_tensor_has_no_size(text: str) -> None:
    assert tensors(text) is None and all_bytes(text) is None
    assert category("Add", text, text) == "kernels"


def test_more_bytes_than_there_are() -> None:
    assert elements((2**59,)) == 2**59
    assert all_bytes(f'[{{"double":[{2**59}]}}]') is None
    assert elements((2**59, 2**59, 0)) == 0
