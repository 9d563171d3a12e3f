"""Commands that say who may do what, what they did, and what must be gone: keys, audit, secrets, erasure."""
