"""Settings of the CoreML execution provider."""
