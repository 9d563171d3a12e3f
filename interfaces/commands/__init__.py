"""The commands of `rag-wrapper`, the demo, and what they share.

What takes long to import is imported where it is used, so that help and usage errors are quick.
"""
