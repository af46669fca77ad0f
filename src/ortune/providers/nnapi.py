"""Android's accelerators, by NNAPI."""

from ortune.providers.provider import Provider

PROVIDER = Provider(
    name="NnapiExecutionProvider",
    target="nnapi",
    otherwise="it is in the Android package",
    compiles=True,
    standard_operators=True,
    fixed_sizes=True,
)
