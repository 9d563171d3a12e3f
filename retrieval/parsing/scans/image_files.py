"""Files that are pictures (PNG, JPEG, TIFF), decoded by Pillow: pages to be recognised, more than one in a TIFF."""

from __future__ import annotations

import importlib
import math
from io import BytesIO
from typing import Any

from PIL import Image, ImageOps

from retrieval.parsing.parsed import TOO_LARGE, Parsed, UnreadableError
from retrieval.parsing.scans.picture import DPI, MAX_PIXELS, Picture, scale_for

MAX_DECODED_PIXELS = 100_000_000
"""A4 at a thousand dots per inch. What says that it has more is not decoded."""
FORMATS = ("PNG", "JPEG", "TIFF")
for _each in (*FORMATS, "MPO"):  # which is what cameras write for a JPEG
    importlib.import_module(f"PIL.{_each.title()}ImagePlugin")
_DEPTHS = ("I", "F")  # begin the modes of more than eight bits
_LEAST_DPI, _MOST_DPI = 70, 1200  # what others say is made up


def parse(content: bytes) -> Parsed:
    """Return no text, and the numbers of the pages to be recognised."""
    with _opened(content) as image:
        # The other pictures of a PNG or a JPEG are those of an animation, or for a second eye.
        count = getattr(image, "n_frames", 1) if image.format == "TIFF" else 1
    return Parsed("", pages=count, scanned=list(range(1, count + 1)))


def picture(content: bytes, page: int) -> Picture:
    """Return a page as it is looked at: upright, on white."""
    with _opened(content) as image:
        if page > 1:
            image.seek(page - 1)
        _check_size(image)
        size, scale = math.prod(image.size), scale_for(*image.size)
        image.draft("L", (round(image.width * scale), round(image.height * scale)))  # of a JPEG, less is decoded
        dpi = image.info.get("dpi", (0,))[0]
        grey = ImageOps.exif_transpose(_grey(image))
    if math.prod(grey.size) > MAX_PIXELS:
        scale = scale_for(*grey.size)
        grey = grey.resize((int(grey.width * scale), int(grey.height * scale)), Image.Resampling.BOX)
    is_told = _LEAST_DPI <= dpi <= _MOST_DPI
    dpi = round(float(dpi) * math.sqrt(math.prod(grey.size) / size)) if is_told else DPI
    return Picture(grey.tobytes(), grey.width, grey.height, grey.width, dpi)


def _opened(content: bytes) -> Image.Image:
    try:
        image = Image.open(BytesIO(content), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise _too_large() from error
    _check_size(image)
    return image


def _check_size(image: Image.Image) -> None:
    if image.width * image.height > MAX_DECODED_PIXELS:
        raise _too_large()


def _too_large() -> UnreadableError:
    return UnreadableError(f"has more than {MAX_DECODED_PIXELS:,} pixels", TOO_LARGE)


def _grey(image: Image.Image) -> Image.Image:
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    elif image.mode.startswith(_DEPTHS):  # of which conversion would keep the last eight bits, or none
        extremes: Any = image.getextrema()
        low, high = extremes
        factor = 255 / ((high - low) or 1)
        image = image.point(lambda value: value * factor - low * factor)
    return image.convert("L")
