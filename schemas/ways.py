"""The words for the ways in which something is done: how files are split, how answers of oracles are fused."""

SECTIONS, WINDOWS, WHOLE = CHUNKINGS = ("sections", "windows", "whole")
"""The ways to split a file into chunks (`retrieval/ingest/profiles.py`)."""

SMOOTHED, SCORES, RRF = FUSIONS = ("smoothed", "scores", "rrf")
"""The ways to fuse the answers of several oracles (`retrieval/search/fusion.py`)."""
