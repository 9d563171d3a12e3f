"""The recall that is promised where a vector index answers."""

LEAST_RECALL = 0.99
"""The recall@10 below which no answer is left to an index, unless the service is set otherwise."""
