"""Rules on threads: THR."""
