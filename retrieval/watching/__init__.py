"""Folders kept in sync with a collection: `rag-wrapper watch`.

A file is a document, identified by the folder's name and its path. Differences are found by comparing the folder with
what is stored, which is the only memory; file events only say when to look.
"""
