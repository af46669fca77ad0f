"""Processors of phones, by XNNPACK."""

from ortune.targets.target import Target

TARGET = Target(
    name="xnnpack",
    provider="XnnpackExecutionProvider",
    otherwise="it is in the Android and iOS packages",
    options=frozenset({"intra_op_num_threads"}),
)
