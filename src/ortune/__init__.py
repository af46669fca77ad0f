"""ortune: where every millisecond of an ONNX model goes, and what makes it faster, proven."""

from ortune.api import compare, doctor

__version__ = "0.1.0"
__all__ = ["__version__", "compare", "doctor"]
