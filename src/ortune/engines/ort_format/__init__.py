"""Files in ORT format for a given place: their choice, conversion, and check, and sets to compare on a device."""
