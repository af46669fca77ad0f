"""Settings of the native WebGPU execution provider."""
