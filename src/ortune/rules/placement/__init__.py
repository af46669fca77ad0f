"""Rules on devices and what goes between them: PLC."""
