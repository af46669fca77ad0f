"""Rules on quantized models: QNT."""
