"""Files in ORT format for a place: choice of the options, conversion, check, and sets to compare on a device."""
