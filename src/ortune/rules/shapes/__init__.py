"""Rules on shapes, known and guessed: SHP."""
