"""Call styles worth trying on a model, and the providers with device buffers."""

from ortune.catalogue import providers
from ortune.catalogue.knob import OFTEN, SELDOM, Computed

TINY = 40
"""Maximum number of nodes of a model whose runs may take less time than the overhead of calling them."""

_WITH_MEMORY = tuple(p.name for p in providers.providers_with(lambda p: p.memory))

COMPUTED: Computed = {
    "only": {
        "io_binding": tuple(p.name for p in providers.providers_with(lambda p: not p.in_node)),
        "device_binding": _WITH_MEMORY,
        "device_resident": _WITH_MEMORY,
    },
    "worth": lambda model, _: {
        "io_binding": 0.3 if model.n_nodes <= TINY else SELDOM,
        "device_binding": OFTEN,
    },
}
