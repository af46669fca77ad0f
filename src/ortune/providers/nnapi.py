"""Android accelerators, through NNAPI."""

from ortune.providers.provider import Bindings, Provider

PROVIDER = Provider(
    name="NnapiExecutionProvider",
    target="nnapi",
    otherwise="it is in the Android package",
    options=frozenset(
        {
            "NNAPI_FLAG_USE_FP16",
            "NNAPI_FLAG_USE_NCHW",
            "NNAPI_FLAG_CPU_DISABLED",
            "NNAPI_FLAG_CPU_ONLY",
        }
    ),
    bindings=Bindings(java_flags=("addNnapi", "NNAPIFlags", "NNAPI_FLAG_")),
    compiles=True,
    standard_operators=True,
    fixed_sizes=True,
)
