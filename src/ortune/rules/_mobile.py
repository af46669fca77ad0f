"""Code shared by rules on phones: the part of a model that the target's provider supports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortune.catalogue.named import COREML_FORMAT as FORMAT
from ortune.catalogue.providers import COREML, NNAPI, QNN, XNNPACK
from ortune.catalogue.providers import COREML_NETWORK as NETWORK
from ortune.rules._providers import options_of
from ortune.rules.facts import Facts

# The support tables are imported only for these targets.
if TYPE_CHECKING:
    from ortune.engines.partitions.partition import Partition
    from ortune.engines.partitions.support import Format

ACCELERATORS = (NNAPI.target, COREML.target, QNN.target)
"""Targets whose provider copies tensors from and to the CPU."""
PHONES = (*ACCELERATORS, XNNPACK.target)


def in_program(facts: Facts) -> bool:
    """Return whether the plan sets CoreML's model format to MLProgram."""
    option, setting = options_of(facts, COREML.name).get(FORMAT.key), facts.plan.settings.get(FORMAT.name)
    return option == "MLProgram" or setting == "mlprogram"


def format_of(facts: Facts) -> Format | None:
    """Return the model format that the target's provider accepts; None for targets that are not on phones."""
    if facts.target not in PHONES:
        return None
    from ortune.engines.partitions.support import find

    return find(NETWORK if facts.target == COREML.target and not in_program(facts) else facts.target)


def partition_of(facts: Facts) -> Partition | None:
    """Return the partition of the model, as stored, by the target's provider; None if unknown."""
    form = format_of(facts)
    if facts.model is None or form is None:
        return None
    from ortune.engines.partitions.partition import partition

    return partition(facts.model.ir, form, facts.ort_version)
