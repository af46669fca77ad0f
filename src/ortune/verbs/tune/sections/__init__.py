"""Sections of a tuning's page; each module makes one section from the envelope."""
