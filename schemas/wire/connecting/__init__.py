"""Connections on the wire: their bodies and answers, the forms of their providers, and variables for placeholders."""
