"""Placeholders in configurations: what they stand for, and where their values may go."""
