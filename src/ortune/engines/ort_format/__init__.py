"""Files in ORT format for a stated place: chosen, made, checked, and compared as a set."""
