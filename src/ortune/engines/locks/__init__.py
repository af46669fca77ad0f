"""Stores how ONNX Runtime optimises and runs a model in a lock file, and later compares the model with it untimed."""
