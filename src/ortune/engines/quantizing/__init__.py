"""Creates and runs quantized models, and compares their outputs with the float model's."""
