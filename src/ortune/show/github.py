"""A document as GitHub workflow commands: one annotation for the answer and for each finding."""

from __future__ import annotations

from ortune.show.document import Annotation, Document
from ortune.show.escape import shown


def render(document: Document) -> str:
    """Return one workflow command per line; texts are escaped, so that no text can start another command."""
    return "".join(f"{_command(annotation)}\n" for annotation in document.annotations)


def _command(annotation: Annotation) -> str:
    message = "%0A".join(_data(line) for line in annotation.lines)
    where = f"file={_property(annotation.file)}," if annotation.file else ""
    return f"::{annotation.level} {where}title={_property(annotation.title)}::{message}"


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _data(text: str) -> str:
    # Shown texts contain no line end.
    return shown(text).replace("%", "%25")
