"""Rules on phones."""
