"""What a processor does with products of 8 bits."""

from __future__ import annotations

from ortune.records import Host

DOT_PRODUCTS = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"})


def lacks_it(host: Host | None) -> bool:
    """Return whether a processor is known to have no dot product; where no feature was read, nothing is known."""
    return host is not None and bool(host.features) and not DOT_PRODUCTS & set(host.features)


def saturates(host: Host | None) -> bool:
    """Return whether a processor adds pairs of products of uint8 and int8 in 16 bits."""
    return host is not None and lacks_it(host) and host.machine.lower() in ("x86_64", "amd64")
