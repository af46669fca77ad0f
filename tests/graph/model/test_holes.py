"""Files of weights that are long and hardly written: refused at once, with what is on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from onnx_text import assemble
from ortune.errors import ModelError
from ortune.graph.model.open import open_model


def sparse(folder: Path, n_bytes: int) -> Path:
    """A model whose weight of so many bytes lies in a file that nobody wrote."""
    weight = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[n_bytes])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.data")
    onnx.save(
        assemble([helper.make_node("Gather", ["w", "i"], ["y"])], "int64[1] i", "uint8[1] y", [weight]),
        folder / "m.onnx",
    )
    with (folder / "w.data").open("wb") as file:
        file.truncate(n_bytes)
    if (folder / "w.data").stat().st_blocks * 512 > n_bytes // 100:
        pytest.skip("this file system writes holes out")
    return folder / "m.onnx"


@pytest.mark.skipif(os.name == "nt", reason="holes are asked for otherwise there")
def test_a_terabyte_that_nobody_wrote_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"1,100 GB long, but only 0\.0 MB are on disk") as refused:
        open_model(sparse(tmp_path, 1 << 40))
    assert refused.value.where == str(tmp_path / "w.data")


@pytest.mark.skipif(os.name == "nt", reason="holes are asked for otherwise there")
def test_a_short_hole_is_zeros(tmp_path: Path) -> None:
    assert len(open_model(sparse(tmp_path, 1 << 20)).sha256) == 64
