"""Rules on what a measurement means: MSR."""
