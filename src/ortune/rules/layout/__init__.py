"""Rules on the memory layout of values: LAY."""
