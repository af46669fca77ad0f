"""Rules on NVIDIA's GPUs: CUD."""
