"""What a process prints at a pseudo-terminal."""

from __future__ import annotations

import os


def read_all(terminal: int) -> bytes:
    """All that is printed until the last writer is gone; its own end is then closed."""
    said = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # its other end is closed
            piece = b""
        if not piece:
            os.close(terminal)
            return said
        said += piece
