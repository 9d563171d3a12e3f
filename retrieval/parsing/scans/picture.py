"""What is recognised: a page as a picture in shades of grey."""

from __future__ import annotations

import math
from typing import NamedTuple

DPI = 150
"""The dots per inch at which pages are drawn. More take longer, and letters of 8 points are read as well."""
MAX_PIXELS = 9_000_000
"""The most pixels of a picture: A2 at that resolution. Larger ones are made smaller, and bound time and memory so."""


class Picture(NamedTuple):
    """A byte for each pixel, 0 for black, in rows of `stride` bytes."""

    pixels: bytes
    width: int
    height: int
    stride: int
    dpi: int = DPI


def scale_for(width: float, height: float, scale: float = 1.0) -> float:
    """Return the scale, `scale` at most, at which a picture of this size keeps within `MAX_PIXELS`."""
    return min(scale, math.sqrt(MAX_PIXELS / (width * height)))
