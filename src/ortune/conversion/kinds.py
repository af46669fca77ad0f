"""What a SOURCE is, told from its name and its first bytes; never opened here."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from ortune import files
from ortune.errors import ModelError, UsageError
from ortune.fleet.converters import SKLEARN, TENSORFLOW, TORCH, Converter
from ortune.records import SourceFormat

FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
FRAMEWORKS = {"pytorch": TORCH, "tensorflow": TENSORFLOW, "sklearn": SKLEARN}
"""What ``--framework`` may say of a function."""
_IMPORTS = {
    "torch": TORCH, "torchvision": TORCH, "timm": TORCH, "transformers": TORCH,
    "tensorflow": TENSORFLOW, "keras": TENSORFLOW,
    "sklearn": SKLEARN, "lightgbm": SKLEARN, "xgboost": SKLEARN,
}  # fmt: skip
_OF_FACTORY: dict[str, SourceFormat] = {
    TORCH.name: "torch",
    TENSORFLOW.name: "tensorflow",
    SKLEARN.name: "fitted",
}
_REFUSED = {
    ".pt": "a .pt file is a pickle, which executes code when loaded",
    ".pth": "a .pth file is a pickle, which executes code when loaded",
    ".bin": "a .bin file contains weights only",
    ".safetensors": "a .safetensors file contains weights only",
    ".pkl": "a pickle executes code when loaded",
    ".pickle": "a pickle executes code when loaded",
    ".joblib": "a joblib file is a pickle, which executes code when loaded",
    ".h5": "an HDF5 file of Keras may hold code, and safe_mode does not cover all of it",
    ".hdf5": "an HDF5 file of Keras may hold code, and safe_mode does not cover all of it",
}
_INSTEAD = {
    ".h5": "save it again with model.save('model.keras')",
    ".hdf5": "save it again with model.save('model.keras')",
    ".pt": (
        "save it with torch.export.save(torch.export.export(model, inputs), 'model.pt2'), or pass the "
        "function that creates the model: module:function"
    ),
}
_BY_FUNCTION = "name the function that creates the model: ortune convert module:function"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """What a source is.

    Attributes:
        text: As it was written.
        kind: What opens it.
        converter: Its framework with its converter.
        factory: It is ``module:function``.
    """

    text: str
    kind: SourceFormat
    converter: Converter
    factory: bool = False

    @property
    def stem(self) -> str:
        """What the ONNX model is called."""
        return self.text.rpartition(":")[2] if self.factory else Path(self.text).stem


def is_source(text: str) -> bool:
    """Returns whether a side of a comparison is a source, or what would be one and is refused; never a model."""
    path = Path(text)
    if FACTORY.fullmatch(text) and not files.exists(path):
        return True
    is_source = path.suffix.lower() in (".pt2", ".keras", ".tflite", *_REFUSED)
    return is_source or files.is_file(path / "saved_model.pb")


def kind_of(text: str, framework: str | None = None) -> SourceKind:
    """What a source is.

    Args:
        text: A file, a folder or ``module:function``.
        framework: As ``--framework`` has it.

    Raises:
        UsageError, ModelError: It is nothing that can be converted, or would run code that nobody named.
    """
    if framework is not None and framework not in FRAMEWORKS:
        raise UsageError(
            f"{framework!r} is not a supported framework",
            where="--framework",
            do=f"one of {', '.join(FRAMEWORKS)}",
        )
    if FACTORY.fullmatch(text) and not files.exists(Path(text)):
        converter = FRAMEWORKS[framework] if framework else _imported_by(text)
        return SourceKind(text=text, kind=_OF_FACTORY[converter.name], converter=converter, factory=True)
    path, ending = Path(text), Path(text).suffix.lower()
    if not files.exists(path):
        raise ModelError("No such file.", where=text, do="Pass a file, a folder, or module:function.")
    if ending in _REFUSED:
        raise ModelError(
            f"This file is not loaded: {_REFUSED[ending]}.", where=text, do=f"{_INSTEAD.get(ending, _BY_FUNCTION)}.",
            code="unsafe-source",
        )  # fmt: skip
    if ending == ".pt2":
        return SourceKind(text=text, kind="torch", converter=TORCH)
    if ending == ".tflite":
        return SourceKind(text=text, kind="tflite", converter=TENSORFLOW)
    if ending == ".keras" or files.is_file(path / "saved_model.pb"):
        return SourceKind(text=text, kind="tensorflow", converter=TENSORFLOW)
    raise ModelError(
        "This source cannot be converted.",
        where=text,
        do="Pass a .pt2, .keras or .tflite file, a SavedModel folder, or module:function.",
    )


def module_files(factory: str) -> tuple[Path, ...]:
    """The files of a function's module, as far as it lies in the current folder."""
    module = Path(factory.partition(":")[0].replace(".", "/"))
    return tuple(
        place for place in (module.with_suffix(".py"), module / "__init__.py") if files.is_file(place)
    )


def _imported_by(factory: str) -> Converter:
    """The framework that a module of the current folder imports."""
    for place in module_files(factory):
        try:
            tree = ast.parse(files.read(place))
        except (SyntaxError, ValueError) as error:
            raise UsageError(f"not a Python module: {error}", where=str(place)) from error
        families = [_IMPORTS[name] for name in _roots(tree) if name in _IMPORTS]
        if len({family.name for family in families}) == 1:
            return families[0]
    raise UsageError(
        "the framework could not be detected",
        where=factory,
        do=f"pass it with --framework {'|'.join(FRAMEWORKS)}",
    )


def _roots(tree: ast.AST) -> set[str]:
    roots = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            roots.add(node.module.partition(".")[0])
    return roots
