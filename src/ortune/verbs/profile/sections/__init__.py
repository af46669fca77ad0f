"""Sections of a profile's page, of its envelope."""
