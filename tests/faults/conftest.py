from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    yield made
    assert made.workers() == []
