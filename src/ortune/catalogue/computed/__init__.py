"""Fields of settings that code computes: a module for each of these settings, with the fields in ``COMPUTED``."""
