"""Findings on the results of a soak's experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortune.measuring.measuring import Measuring
from ortune.records import Finding, SoakExperiment
from ortune.rules import rule_of
from ortune.rules.memory import (
    arena_keeps_largest_size,
    free_memory_kept_by_allocator,
    memory_kept_per_input,
    memory_kept_per_session,
    memory_kept_per_thread,
    memory_pattern_per_shape,
    prepacked_weights,
)

CAUSES = (
    memory_kept_per_input,
    memory_kept_per_session,
    arena_keeps_largest_size,
    memory_pattern_per_shape,
    memory_kept_per_thread,
    free_memory_kept_by_allocator,
    prepacked_weights,
)
"""Rules that read the results of the experiments."""


def findings_of(base: Measuring, found: Sequence[SoakExperiment]) -> list[Finding]:
    """Return the findings on the results of the experiments.

    ``base`` is the measurement of the model, or of an application's first model.
    """
    facts = replace(base.facts(), soak=found)
    return [finding for rule in CAUSES for finding in rule_of(rule).findings(facts)]
