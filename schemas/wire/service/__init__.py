"""The service itself on the wire: what operators ask of it."""
