"""Rules on memory: MEM."""
