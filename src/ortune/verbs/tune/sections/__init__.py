"""Sections of a tuning's page, of its envelope."""
