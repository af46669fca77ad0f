"""Rules on known and guessed shapes: SHP."""
