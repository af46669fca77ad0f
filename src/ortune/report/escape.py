"""Names of models, nodes and settings come from files: in no format may they act as markup or commands."""

from __future__ import annotations

_MARKDOWN = "\\`*_{}[]<>|#~"


def visible(text: str) -> str:
    """The text with every character that a terminal would act on written out, as in a Python literal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def markdown(text: str) -> str:
    """One line of Markdown that shows the text as it is; safe inside a table cell too."""
    text = visible(text).replace("&", "&amp;")
    for sign in _MARKDOWN:
        text = text.replace(sign, "\\" + sign)
    return text


def workflow_command(level: str, title: str, lines: list[str]) -> str:
    """A GitHub workflow command with a message of several lines; no name in it can start another command."""
    message = "%0A".join(_data(visible(line)) for line in lines)
    return f"::{level} title={_property(visible(title))}::{message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
