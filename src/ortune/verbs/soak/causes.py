"""Rules on the results of a soak's experiments."""

from __future__ import annotations

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
"""Rules on the results of the experiments."""
