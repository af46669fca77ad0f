"""Phone CPUs, through XNNPACK."""

from ortune.providers.provider import Bindings, Provider

PROVIDER = Provider(
    name="XnnpackExecutionProvider",
    target="xnnpack",
    otherwise="it is in the Android and iOS packages",
    options=frozenset({"intra_op_num_threads"}),
    bindings=Bindings(by_name="XNNPACK", java_map="addXnnpack", rust="XNNPACK"),
    hardware="cpu",
    standard_operators=True,
)
