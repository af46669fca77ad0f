"""Android's accelerators, by NNAPI."""

from ortune.targets.target import Target

TARGET = Target(
    name="nnapi",
    provider="NnapiExecutionProvider",
    otherwise="it is in the Android package",
)
