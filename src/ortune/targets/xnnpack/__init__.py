"""Processors of phones, by XNNPACK."""

from __future__ import annotations

from ortune.targets.target import Target

TARGET = Target(
    name="xnnpack",
    provider="XnnpackExecutionProvider",
    otherwise="it is in the Android and iOS packages",
)
