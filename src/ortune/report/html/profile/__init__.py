"""Sections of a profile's page, one file each: ``ORDER``, ``TITLE``, ``NOTE`` and ``content(given)``.

``content`` returns what the section's template (``templates/profile/<name>.html.j2``) shows, or None to be left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from ortune.records import ProfileResult, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a section may show.

    Attributes:
        no_timeline: Why there is none, "" where that need not be said.
    """

    result: ProfileResult
    timeline: Timeline | None = None
    no_timeline: str = ""
