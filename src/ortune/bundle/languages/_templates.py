"""The templates of code and other files of a bundle."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def templates() -> Environment:
    """Return the template environment with ``@@ x @@`` for values, since the languages use braces."""
    return Environment(
        loader=PackageLoader("ortune.bundle.languages"),
        autoescape=False,
        undefined=StrictUndefined,
        variable_start_string="@@",
        variable_end_string="@@",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
