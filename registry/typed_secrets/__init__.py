"""Secrets that people type: sealed under the service's key, each for the one destination it was typed for."""
