"""Small source models of the usual kinds, each with its converter and the axes that are to stay dynamic.

CNNs, ViT, BERT and LSTM are modules written here (``sources/torch_sources.py``): neither torchvision nor timm is in the
converter's environment.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ortune import launcher
from ortune.runtimes.converters import SKLEARN, TENSORFLOW, TORCH, Converter

_MODULES = Path(__file__).parent / "sources"
_LIMIT_S = 600.0


@dataclass(frozen=True, kw_only=True)
class SmallSource:
    """One source.

    Attributes:
        what: In words.
        text: As ``ortune convert`` takes it.
        dynamic: What ``--dynamic`` asks for.
        axes: The names that must come out dynamic.
    """

    what: str
    text: str
    converter: Converter
    dynamic: str = ""
    axes: frozenset[str] = frozenset()


_BATCH = frozenset({"batch"})
TEN = (
    SmallSource(what="a residual CNN, .pt2", text="resnet.pt2", converter=TORCH),
    SmallSource(
        what="a CNN of inverted bottlenecks",
        text="torch_sources:mobilenet",
        converter=TORCH,
        dynamic="batch",
        axes=_BATCH,
    ),
    SmallSource(what="a ViT", text="torch_sources:vit", converter=TORCH, dynamic="batch", axes=_BATCH),
    SmallSource(
        what="a BERT",
        text="torch_sources:bert",
        converter=TORCH,
        dynamic="batch,seq",
        axes=frozenset({"batch", "seq"}),
    ),
    SmallSource(
        what="an LSTM",
        text="torch_sources:lstm",
        converter=TORCH,
        dynamic="batch,frames",
        axes=frozenset({"batch", "frames"}),
    ),
    SmallSource(what="a detector with NMS, SavedModel", text="detector", converter=TENSORFLOW),
    SmallSource(what="a Keras CNN", text="cnn.keras", converter=TENSORFLOW, axes=_BATCH),
    SmallSource(what="the same as TFLite", text="cnn.tflite", converter=TENSORFLOW, axes=_BATCH),
    SmallSource(what="a random forest", text="fitted_sources:forest", converter=SKLEARN, axes=_BATCH),
    SmallSource(what="LightGBM, classes", text="fitted_sources:boosted", converter=SKLEARN, axes=_BATCH),
    SmallSource(
        what="XGBoost, regression", text="fitted_sources:boosted_regression", converter=SKLEARN, axes=_BATCH
    ),
)


def write(folder: Path, python_of: Callable[[Converter], str], *converters: Converter) -> None:
    """Puts the modules into a folder, and the files that these frameworks write of them."""
    for file in _MODULES.glob("*.py"):
        shutil.copy(file, folder)
    code = {
        TORCH: "import torch_sources; torch_sources.write_pt2('resnet.pt2')",
        TENSORFLOW: "import keras_sources; keras_sources.write('.')",
    }
    for converter in converters:
        if converter in code:
            done = launcher.run(
                [python_of(converter), "-c", code[converter]], limit_s=_LIMIT_S, folder=folder
            )
            assert done.code == 0, done.log.decode()[-2000:]
