"""The modules of a verb, found by the name in a document's schema."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

MANY = "many"
"""Name in the schema of documents about several models, which is not a command; its modules are in ``verbs/_many``."""

HIDDEN = {MANY: "_many", "app-bench": "_app_bench", "app-tune": "_app_tune", "app-lock": "_app_lock"}
"""Maps schema names that are not commands, for results on several models or a recording, to folders."""


def module_of(verb: str, part: str) -> Any:
    """Return the module ``verbs/VERB/PART.py``; None if it does not exist.

    Args:
        verb: Name of the verb in a document's schema.
        part: "words", "options", "page", ...
    """
    name = f"ortune.verbs.{HIDDEN.get(verb, verb)}.{part}"
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # there is no such verb
        return None
    return None if found is None else importlib.import_module(name)
