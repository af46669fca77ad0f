"""ortune: where every millisecond of an ONNX model goes, and what makes it faster, proven."""

__version__ = "0.1.0"
