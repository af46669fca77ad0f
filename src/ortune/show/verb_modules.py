"""The modules of a verb, found by the name in a document's schema."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

MANY = "many"
"""In the schema of a document about several models; its modules are in ``verbs/_many``, as it is no command."""

HIDDEN = {MANY: "_many", "app-bench": "_app_bench", "app-tune": "_app_tune", "app-lock": "_app_lock"}
"""Folders of documents that no command is named after: answers about several models, or about a recording."""


def module_of(verb: str, part: str) -> Any:
    """Return ``verbs/VERB/PART.py``; None if there is none.

    Args:
        verb: As the schema of a document names it.
        part: "words", "options", "page", ...
    """
    name = f"ortune.verbs.{HIDDEN.get(verb, verb)}.{part}"
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # no verb is called so
        return None
    return None if found is None else importlib.import_module(name)
