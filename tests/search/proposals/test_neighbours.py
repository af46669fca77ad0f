"""Values beside a value, for the search around a leader."""

from __future__ import annotations

import pytest

from ortune.catalogue.knobs import find
from ortune.records import Value
from ortune.search.proposals.neighbours import neighbours


@pytest.mark.parametrize(
    ("name", "value", "cpus", "beside"),
    [
        ("intra_op_num_threads", 4, 8, [3, 5]),
        ("intra_op_num_threads", 8, 8, [7]),
        ("intra_op_num_threads", 1, 2, [2]),
        ("intra_op_num_threads", 1, 1, []),
        ("dynamic_block_base", 4, 2, [2, 8]),
        ("dynamic_block_base", 1, 2, [2]),
        ("allow_spinning", False, 2, []),
        ("allocator", "mimalloc", 2, []),
    ],
)
def test_a_step_to_either_side_within_what_makes_sense(
    name: str, value: Value, cpus: int, beside: list[Value]
) -> None:
    assert neighbours(find(name), value, cpus) == beside
