"""The bounds of one request, whatever it asks for."""

MAX_PAGE = 1_000
DEFAULT_PAGE = 100
MAX_OFFSET = 2**53
MAX_TOP_K = 1_000
DEFAULT_TOP_K = 3
MAX_RESULTS = 100
DEFAULT_RESULTS = 10
DEFAULT_GROUP = 100
MAX_IDS = 10_000
"""The most ids that one request may name; a filter has room for as many values."""
