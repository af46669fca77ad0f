"""Sections of a profile's page; each module makes one section from the envelope."""
