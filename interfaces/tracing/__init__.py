"""Traces of requests by OpenTelemetry, for those who want them."""
