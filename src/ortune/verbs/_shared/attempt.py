"""Errors as results: of one of several models, so that the others continue, and in documents."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import TypeVar

from ortune.errors import OrtuneError, internal
from ortune.records import ErrorInfo

T = TypeVar("T")


def result_or_error(action: Callable[[], T], say: Callable[[str], None]) -> T | OrtuneError:
    """Return the result of an action, or the error that it raised.

    Any exception other than an ``OrtuneError`` becomes an internal error; if ORTUNE_DEBUG is set, its traceback is
    passed to ``say``.
    """
    try:
        return action()
    except OrtuneError as error:
        return error
    except Exception as error:  # a bug that one model shows must not cost the answers about the others
        if os.environ.get("ORTUNE_DEBUG"):
            for part in traceback.format_exception(error):
                say(part.rstrip())
        return internal(error)


def error_info(error: OrtuneError) -> ErrorInfo:
    """Return an error as documents contain it."""
    return ErrorInfo(code=error.code, what=error.what, where=error.where, do=error.do)
