"""The bounds of one load: commands name them in their help."""

MAX_FILE_MB = 64
"""The usual limit for a file. Records have none: they are read one by one."""
MAX_NAMED = 50
"""How many files that were passed over, and how many errors, are named one by one."""
