"""Settings of the CUDA execution provider."""
