"""Choice of the documents that lie farthest from what is known: the ones that a graph of near neighbours may have no
path to, and that chance hardly ever chooses."""

from __future__ import annotations

import numpy as np

from schemas.records import Vector
from wrapper.distances import rough_distances


class Farthest:
    """At most `number` vectors that lie far from the `known` ones (n, dimension), and from each other: each is, of
    those that were seen, the farthest from the nearest of the known and of the ones before it.

    Vectors are seen in parts, so what was chosen of the parts before competes with the next part alone. That is hardly
    worse than to choose from all at once, and no vector is kept that is not one of the `number`.
    """

    def __init__(self, known: Vector, metric: str, number: int) -> None:
        self._known = known
        self._metric = metric
        self._number = number
        self.vectors: Vector = known[:0]
        self._least = -np.inf
        """How far the last one of them was from the others and the known ones when it was chosen."""

    def see(self, vectors: Vector) -> None:
        """Choose from these vectors (n, dimension), too."""
        if len(self.vectors) == self._number and not self._are_any_farther(vectors):
            return
        seen = np.concatenate([self.vectors, vectors])
        distances = rough_distances(self._known, seen, self._metric).min(axis=0)
        chosen: list[int] = []
        for _ in range(min(self._number, len(seen))):
            chosen.append(int(distances.argmax()))
            self._least = float(distances[chosen[-1]])
            nearer = rough_distances(seen[chosen[-1:]], seen, self._metric)[0]
            distances = np.minimum(distances, nearer)
            distances[chosen] = -np.inf  # by the dot product a vector may be far from itself
        self.vectors = seen[chosen]

    def _are_any_farther(self, vectors: Vector) -> bool:
        """Return whether one of them is farther from all that is known and chosen than those chosen are from it."""
        known = np.concatenate([self._known, self.vectors])
        return bool((rough_distances(known, vectors, self._metric).min(axis=0) > self._least).any())
