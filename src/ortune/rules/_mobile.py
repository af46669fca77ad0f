"""What rules on phones have in common: what the provider of the target takes of a model."""

from __future__ import annotations

from ortune.partitions.partition import Partition, partition
from ortune.partitions.support import Format, find
from ortune.providers.coreml import NETWORK
from ortune.providers.coreml import PROVIDER as COREML
from ortune.providers.nnapi import PROVIDER as NNAPI
from ortune.rules._providers import options_of
from ortune.rules.facts import Facts

PROGRAM = "MLProgram"


def format_of(facts: Facts) -> Format | None:
    """The form in which the target's provider takes models; None for targets that are no phone's alone."""
    if facts.target not in (NNAPI.target, COREML.target):
        return None
    program = options_of(facts, COREML.name).get("ModelFormat") == PROGRAM
    return find(NETWORK if facts.target == COREML.target and not program else facts.target)


def partition_of(facts: Facts) -> Partition | None:
    """What the target's provider takes of the model as the file has it; None where that is not known."""
    form = format_of(facts)
    if facts.model is None or form is None:
        return None
    return partition(facts.model.ir, form, facts.ort_version)
