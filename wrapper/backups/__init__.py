"""Backups: the catalogue and what belongs to it in one file, verified after writing, and the way back."""
