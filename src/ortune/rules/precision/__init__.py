"""Rules on types of numbers: PRC."""
