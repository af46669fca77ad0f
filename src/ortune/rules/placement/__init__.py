"""Rules on devices and copies between them: PLC."""
