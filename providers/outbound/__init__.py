"""The way out: every connection to another service is opened, bounded and redacted here."""
