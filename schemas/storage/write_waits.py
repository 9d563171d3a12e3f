"""What the answer to a write may wait for: that the vector index has it, or that the catalogue has it safely.

Apart from the outcomes, which need NumPy: settings are read before NumPy may be imported.
"""

INDEX, COMMIT = "index", "commit"
WAITS = (INDEX, COMMIT)
