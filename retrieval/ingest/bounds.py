"""The bounds of one load: commands name them in their help."""

MAX_NAMED = 50
"""How many files that were passed over, and how many errors, are named one by one."""
