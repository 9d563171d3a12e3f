"""Erasure: documents, or what belongs to a user, disappear from every table and file, and a receipt says so."""
