"""A web address as a QR code for a terminal; needs segno, a dependency of ``ortune[web]``."""

from __future__ import annotations

from itertools import zip_longest

QUIET = 4  # modules of margin, as required by the standard
_HALVES = {(0, 0): " ", (1, 0): "▀", (0, 1): "▄", (1, 1): "█"}


def drawn(address: str) -> tuple[str, ...]:
    """Return an address as a QR code of text lines; each line shows two rows of modules with half-block characters.

    Printed characters are dark modules. Empty if segno is not installed.
    """
    try:
        import segno
    except ImportError:
        return ()
    rows = [[int(module) for module in row] for row in segno.make_qr(address).matrix_iter(border=QUIET)]
    pairs = zip_longest(rows[::2], rows[1::2], fillvalue=[0] * len(rows[0]))
    return tuple("".join(_HALVES[both] for both in zip(upper, lower, strict=True)) for upper, lower in pairs)
