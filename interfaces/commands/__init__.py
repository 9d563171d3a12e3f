"""The commands of `rag-wrapper`, and what they share.

What takes long to import is imported where it is used, so that help and usage errors are quick.
"""
