"""Rules on numeric types: PRC."""
