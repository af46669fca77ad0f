"""Rules on phones: MOB."""
