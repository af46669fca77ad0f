"""Advice for a source that fails because its process is confined."""

from __future__ import annotations

TRUST = "if you trust it, pass --trust-source, which opens it without confinement"


def advice(error: BaseException) -> str:
    """Return advice if the confinement caused an error; "" otherwise."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, PermissionError) or any(word in str(seen) for word in _DENIED):
            return (
                "a confined source reads and writes no other files, starts no program and has no network; "
                + TRUST
            )
        seen = seen.__cause__ or seen.__context__
    return ""


_DENIED = ("Permission denied", "Operation not permitted", "PERMISSION_DENIED", "Invalid cross-device link")
"""Texts of errors that confinement causes.

The last is due to Linux before 5.19, in which a confined process cannot move files between folders.
"""
