"""The ways to fuse the answers of several oracles (`retrieval/search/fusion.py`)."""

SMOOTHED, SCORES, RRF = "smoothed", "scores", "rrf"
FUSIONS = (SMOOTHED, SCORES, RRF)
