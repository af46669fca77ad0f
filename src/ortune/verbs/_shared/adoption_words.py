"""Sentences about the installation of a different ONNX Runtime build."""

from __future__ import annotations

from ortune.records import Adoption
from ortune.show.numbers import size


def adopting(adoption: Adoption) -> str:
    """Return a phrase on how to install a build: the command, the size, the licence, and the package it replaces."""
    licenses = (
        ", ".join(dict.fromkeys(license for license in adoption.licenses if license)) or "licence unknown"
    )
    place = (
        f", in an environment without {adoption.instead_of}, which it replaces" if adoption.instead_of else ""
    )
    cost = f"{size(adoption.size_bytes)} on disk; {licenses}"
    return f"pip install {' '.join(adoption.requirements)}{place} ({cost})"
