"""Folders kept in sync with a collection: `rag-wrapper watch`.

A file is a document, known by the folder's name and its path. What differs is found by comparing the folder with what
is stored, which is all that is remembered; file events only say when to look.
"""
