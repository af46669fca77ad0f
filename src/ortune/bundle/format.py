"""Reading a bundle: the folder ``NAME.ortune`` with the model, the plan and the proof."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ortune import files
from ortune.bundle.shared import INDEX, is_inside, require_no_way_out, require_schema
from ortune.errors import UsageError
from ortune.records import BundleInfo, read_json

SUFFIX = ".ortune"
_AGAIN = "create the bundle again with ortune tune"
MODELS = (".onnx", ".ort")
"""File name extensions of models."""


class _Kind(msgspec.Struct):
    schema: object = ""


def is_bundle(path: Path) -> bool:
    """Return whether the path is a bundle's folder."""
    return path.suffix == SUFFIX and files.is_folder(path)


def read(path: Path) -> BundleInfo:
    """Read ``ortune.json``; raise UsageError if it is missing, damaged or of another version."""
    index = path / INDEX
    require_no_way_out(path, INDEX)
    try:
        text = files.read(index)
        require_schema(msgspec.json.decode(text, type=_Kind).schema, index)
        info = read_json(text, BundleInfo)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        what, do = (
            ("not a bundle", "pass the folder NAME.ortune")
            if missing
            else ("cannot be read", "make it readable")
        )
        raise UsageError(f"{what}: {error.strerror}", where=str(index), do=do) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"cannot be read: {error}", where=str(index), do=_AGAIN) from error
    for name in (info.model, *filter(None, [info.plain_model])):
        # A bundle comes from elsewhere, so it must not refer to files outside of its folder.
        if not is_inside(name):
            raise UsageError(f"the model is outside the bundle: {name!r}", where=str(index))
        require_no_way_out(path, name)
        if not files.is_file(path / name):
            raise UsageError(f"the model {name} is missing", where=str(path), do=_AGAIN)
    return info


def portable_name(name: str) -> str:
    """Return a file name that is valid on any system; for example, Windows reads "a:b.onnx" as a path on a drive."""
    return name if is_inside(name) else re.sub(r"[:\\]", "_", name)
