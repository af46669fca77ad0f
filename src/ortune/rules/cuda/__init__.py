"""Rules on NVIDIA GPUs: CUD."""
