"""Rules on session creation: SES."""
