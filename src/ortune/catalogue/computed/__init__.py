"""Fields of settings that code computes: one module per setting, with the fields in ``COMPUTED``."""
