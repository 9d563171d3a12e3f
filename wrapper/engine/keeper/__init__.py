"""The engine's keeper: `python -m wrapper.engine.keeper`, one small process that owns the engine's process.

It uses the standard library only, so that it starts in milliseconds and takes next to no memory; only the engine's own
process (`chroma_main.py`) imports Chroma.
"""
