"""The only place where the wire is spelt: bodies and query strings in, JSON out."""
