"""Detects the kind of a source from its name and first bytes, without opening it."""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from ortune import files
from ortune.errors import ModelError, UsageError
from ortune.records import SourceFormat
from ortune.runtimes.converters import SKLEARN, TENSORFLOW, TORCH, Converter

FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
FRAMEWORKS = {"pytorch": TORCH, "tensorflow": TENSORFLOW, "sklearn": SKLEARN}
"""Values of ``--framework`` for a function."""
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
_ZIP = b"PK\x03\x04"
_BY_FUNCTION = "name the function that creates the model: ortune convert module:function"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """A source as the user named it, with its format.

    Attributes:
        text: Name of the source, as the user wrote it.
        kind: Format that determines how it is opened.
        converter: Framework and converter.
        factory: Whether it is ``module:function``.
    """

    text: str
    kind: SourceFormat
    converter: Converter
    factory: bool = False

    @property
    def stem(self) -> str:
        """Stem of the ONNX file's name."""
        return self.text.rpartition(":")[2] if self.factory else Path(self.text).stem


def is_source(text: str) -> bool:
    """Return whether a command-line argument is a source, also of a refused format, rather than an ONNX model."""
    path = Path(text)
    if FACTORY.fullmatch(text) and not files.exists(path):
        return True
    is_source = path.suffix.lower() in (".pt2", ".keras", ".tflite", *_REFUSED)
    return is_source or files.is_file(path / "saved_model.pb")


def kind_of(text: str, framework: str | None = None) -> SourceKind:
    """Return the kind of a source.

    Args:
        text: A file, a folder or ``module:function``.
        framework: Value of ``--framework``.

    Raises:
        UsageError, ModelError: The format cannot be converted, or opening it would run code that the user did not name.
    """
    if framework is not None and framework not in FRAMEWORKS:
        raise UsageError(
            f"{framework!r} is not a supported framework",
            where="--framework",
            do=f"one of {', '.join(FRAMEWORKS)}",
        )
    if FACTORY.fullmatch(text) and not files.exists(Path(text)):
        _require_function(text)
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
    if ending == ".keras" and files.is_file(path) and not _is_zip(path):
        raise ModelError(
            "This is not a model of Keras: a .keras file is a zip archive.",
            where=text,
            do="Save the model again with model.save('model.keras'), or download it again.",
        )
    if ending == ".keras" or files.is_file(path / "saved_model.pb"):
        return SourceKind(text=text, kind="tensorflow", converter=TENSORFLOW)
    raise ModelError(
        "This source cannot be converted.",
        where=text,
        do="Pass a .pt2, .keras or .tflite file, a SavedModel folder, or module:function.",
    )


def module_files(factory: str) -> tuple[Path, ...]:
    """Return the existing files in the current folder that may define the module of a ``module:function``."""
    module = Path(factory.partition(":")[0].replace(".", "/"))
    return tuple(
        place for place in (module.with_suffix(".py"), module / "__init__.py") if files.is_file(place)
    )


def _is_zip(path: Path) -> bool:
    with files.open_file(path) as file:
        return file.read(len(_ZIP)) == _ZIP


def _require_function(factory: str) -> None:
    """Check that a module of the current folder defines the function, before anything is installed for it.

    Raises:
        UsageError: The module does not define the function.
    """
    name = factory.rpartition(":")[2]
    for place in module_files(factory):
        names = _defined(_parsed(place))
        if names is None or name in names:
            continue
        near = difflib.get_close_matches(name, sorted(names), n=2)
        module = factory.rpartition(":")[0]
        said = ", ".join(f"{module}:{other}" for other in near or sorted(names)[:5])
        raise UsageError(
            f"{place} defines no {name!r}",
            where=factory,
            do=f"did you mean {said}?" if near else f"it defines {said}" if said else "name another module",
        )


def _defined(tree: ast.Module) -> set[str] | None:
    """Return all names that a module may define; None if a star import or ``__getattr__`` makes them unknown."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            if node.name == "__getattr__":
                return None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return None if "*" in names else names


def _parsed(place: Path) -> ast.Module:
    try:
        return ast.parse(files.read(place))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"not a Python module: {error}", where=str(place)) from error


def _imported_by(factory: str) -> Converter:
    """Return the framework that a function or else its module imports.

    Raises:
        UsageError: They import no framework, or several.
    """
    places = module_files(factory)
    found: set[str] = set()
    for place in places:
        tree = _parsed(place)
        own = {name for name in _roots(_function(tree, factory)) if name in _IMPORTS}
        every = {name for name in _roots(tree) if name in _IMPORTS}
        for names in (own, every):  # in a module with functions of several frameworks, those of this function
            if len({_IMPORTS[name].name for name in names}) == 1:
                return _IMPORTS[names.pop()]
        found |= own or every
    name = Path(factory.partition(":")[0].replace(".", "/")).with_suffix(".py")
    if not places:
        why = f"there is no {name} in this folder"
    elif found:
        why = f"{places[0]} imports {' and '.join(sorted(found))}"
    else:
        why = f"{places[0]} imports none itself"
    raise UsageError(
        f"the framework could not be detected: {why}",
        where=factory,
        do=f"pass it with --framework {'|'.join(FRAMEWORKS)}",
    )


def _function(tree: ast.Module, factory: str) -> ast.AST:
    """Return the named definition; an empty module if the function is not defined there."""
    name = factory.rpartition(":")[2]
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return next((n for n in tree.body if isinstance(n, kinds) and n.name == name), ast.Module([], []))


def _roots(tree: ast.AST) -> set[str]:
    roots = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            roots.add(node.module.partition(".")[0])
    return roots
