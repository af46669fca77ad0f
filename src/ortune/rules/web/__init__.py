"""Rules on WebGPU and browsers."""
