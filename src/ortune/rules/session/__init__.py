"""Rules on making a session: SES."""
