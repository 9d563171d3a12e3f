"""The audit log: who did what and when, a JSON line for each, in files that rotate and are never deleted."""
