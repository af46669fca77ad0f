"""Creates and runs quantized models, and compares their outputs with those of the float model."""
