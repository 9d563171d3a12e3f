"""What the catalogue remembers about the vector index: the outbox, reports and documents set aside."""
