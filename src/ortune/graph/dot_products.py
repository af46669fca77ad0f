"""CPU support for 8-bit dot-product instructions."""

from __future__ import annotations

from ortune.records import Host

DOT_PRODUCTS = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"})


def lacks_it(host: Host | None) -> bool:
    """Return whether a CPU is known to lack 8-bit dot-product instructions; False if the CPU's features are unknown."""
    return host is not None and bool(host.features) and not DOT_PRODUCTS & set(host.features)


def saturates(host: Host | None) -> bool:
    """Return whether a CPU adds pairs of uint8 x int8 products in 16-bit registers, which can saturate."""
    return host is not None and lacks_it(host) and host.machine.lower() in ("x86_64", "amd64")
