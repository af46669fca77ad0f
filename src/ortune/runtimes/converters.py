"""Environments for converting models: a framework with its maintained converter, separate from ortune itself.

Names and packages come from this closed list; a name comes only from the command line. Packages are installed with all
dependencies, and only from wheels.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """One framework with its converter.

    Attributes:
        name: Name for ``ortune runtime add``.
        framework: Common name of the framework.
        what: The models that it converts, in one sentence.
        imports: Modules that must be importable.
        package: Package whose version is recorded.
        requirements: Packages to install, by preference: a later entry is used if the index lacks the previous one.
        about_bytes: Approximate size on disk.
    """

    name: str
    framework: str
    what: str
    imports: tuple[str, ...]
    package: str
    requirements: tuple[tuple[str, ...], ...]
    about_bytes: int


_TORCH, _ONNX = "2.13.0", "onnx==1.23.2"
_TORCH_REST = ("onnxscript==0.7.2", _ONNX, "numpy<3")

TORCH = Converter(
    name="convert-torch",
    framework="PyTorch",
    what="PyTorch on the CPU and its two ONNX exporters",
    imports=("torch", "onnxscript", "onnx"),
    package="torch",
    # On Linux the default build includes gigabytes of CUDA libraries, which an export does not use.
    requirements=(
        *(((f"torch=={_TORCH}+cpu", *_TORCH_REST),) if sys.platform == "linux" else ()),
        (f"torch=={_TORCH}", *_TORCH_REST),
    ),
    about_bytes=900_000_000,
)
TENSORFLOW = Converter(
    name="convert-tf",
    framework="TensorFlow",
    what="TensorFlow, Keras and tf2onnx",
    imports=("tensorflow", "tf2onnx"),
    package="tf2onnx",
    requirements=(
        (
            "tensorflow-cpu==2.21.0" if sys.platform == "linux" else "tensorflow==2.21.0",
            "tf2onnx==1.17.0",
        ),
    ),
    about_bytes=1_600_000_000,
)
SKLEARN = Converter(
    name="convert-sklearn",
    framework="scikit-learn",
    what="scikit-learn, LightGBM and XGBoost with skl2onnx and onnxmltools",
    imports=("sklearn", "lightgbm", "xgboost", "skl2onnx", "onnxmltools"),
    package="skl2onnx",
    requirements=(
        (
            "scikit-learn==1.8.0",
            "lightgbm==4.7.0",
            "xgboost-cpu==3.2.0" if sys.platform == "linux" else "xgboost==3.2.0",
            "skl2onnx==1.20.0",
            "onnxmltools==1.16.0",
            "packaging",  # an undeclared dependency of onnxmltools
        ),
    ),
    about_bytes=400_000_000,
)
CONVERTERS = {converter.name: converter for converter in (TORCH, TENSORFLOW, SKLEARN)}
