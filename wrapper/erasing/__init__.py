"""Erasure in the storage: what is deleted disappears from the files of the catalogue and of the engine, too."""
