"""Reads the models of the user's page from its sessions in pieces, within the remaining time."""

from __future__ import annotations

import base64
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec

from ortune import monotonic
from ortune.records import PageModel, PageWeights
from ortune.targets.browser.devtools import DevTools
from ortune.targets.browser.devtools_messages import DevToolsError
from ortune.targets.browser.watched_session import LONGEST_LINE, WatchedSession

MOST_MODEL = 512 << 20
"""Maximum bytes of a model with its weights; larger models are not read."""
_PIECE = 2 << 20


class _OpenFile(msgspec.Struct, kw_only=True):
    """A file opened for reading in the page."""

    url: Annotated[str, msgspec.Meta(max_length=LONGEST_LINE)]
    size: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class PageModels:
    """Reads the models of a page's sessions.

    Args:
        tools: Connection to the browser.
        kept: JavaScript expression of the hook's data.
        until: Time limit by ``monotonic.now_s``.
    """

    def __init__(self, tools: DevTools, kept: str, until: float) -> None:
        self._tools, self._kept, self._until = tools, kept, until

    def read(self, session: WatchedSession, model: Path) -> PageModel:
        """Copy a model and its weights from the page's memory, or let the page fetch them again; return their record.

        Args:
            session: Session of the model.
            model: File for the model, with its weights in the same folder; missing if the model could not be read.
        """
        asked = session.asked
        beside = tuple(PageWeights(path=w.path, url=w.url, size_bytes=w.size_bytes) for w in asked.external)
        result = PageModel(url=asked.url, size_bytes=asked.bytes, weights=beside)
        if session.replaced:
            return msgspec.structs.replace(result, error="the page was reloaded in the meantime")
        what = ""
        parts: list[tuple[str, int]] = []
        try:
            parts.append(self._read(session, 0, asked.bytes, model, 0))
            for part, weights in enumerate(beside, 1):
                what = f"its weights in {weights.path}: "
                path, before = _weights_path(model, weights.path), sum(size for _, size in parts)
                parts.append(self._read(session, part, weights.size_bytes, path, before))
        except (DevToolsError, TypeError, ValueError, KeyError, OSError) as error:
            model.unlink(missing_ok=True)
            result = msgspec.structs.replace(result, error=what + str(error).partition("\n")[0][:200])
        if parts:
            result = msgspec.structs.replace(result, url=asked.url or parts[0][0], size_bytes=parts[0][1])
        weights_now = [
            msgspec.structs.replace(file, url=file.url or url, size_bytes=size)
            for file, (url, size) in zip(beside, parts[1:], strict=False)
        ]
        return msgspec.structs.replace(result, weights=(*weights_now, *beside[len(weights_now) :]))

    def _read(
        self, session: WatchedSession, part: int, size: int, path: Path, before: int
    ) -> tuple[str, int]:
        """Copy a part of a session's model to ``path``; return its URL and size in bytes.

        Part 0 is the model, the others are its weights files; ``before`` is the number of bytes of the earlier parts.

        Raises:
            DevToolsError: The part cannot be read, or the model is too large; the message gives the reason.
        """
        if before + size > MOST_MODEL:
            raise DevToolsError(f"larger than {MOST_MODEL >> 20} MiB, so not read")
        opened = f"{self._kept}.open({session.number}, {part}, {size})"
        file = msgspec.convert(self._answer(opened, session.context), _OpenFile)
        if not file.size:
            raise DevToolsError("its bytes are no longer in the page")
        if before + file.size > MOST_MODEL:
            raise DevToolsError(f"larger than {MOST_MODEL >> 20} MiB, so not read")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            for at in range(0, file.size, _PIECE):
                piece = f"{self._kept}.piece({session.number}, {part}, {at}, {_PIECE})"
                data = base64.b64decode(self._answer(piece, session.context))
                if len(data) != min(_PIECE, file.size - at):
                    raise DevToolsError("its bytes are no longer in the page")
                out.write(data)
        return file.url, file.size

    def _answer(self, question: str, context: str) -> Any:
        """Return the value of an expression in the page, in at most half of the remaining time."""
        left_s = self._until - monotonic.now_s()
        if left_s <= 0:
            raise DevToolsError("no time left to read it")
        return self._tools.evaluate(question, left_s / 2, context=context)


def _weights_path(model: Path, name: str) -> Path:
    """Return the path of a weights file from its name in the page, which equals its name in the model.

    Raises:
        DevToolsError: The file is not next to the model.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise DevToolsError("not a file in the model's folder")
    path = model.parent.joinpath(*parts)
    if path == model:
        raise DevToolsError("the model itself has this name")
    return path
