"""One measurement, whatever verb asks for it: its scratch folder, sides, machine, lock, journal and answer."""
