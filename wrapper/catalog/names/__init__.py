"""Collections themselves: making and deleting them, what they are called, and the databases that they are in."""
