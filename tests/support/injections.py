"""Lines with which a document may try to end the block of context that contains it."""

import re
import unicodedata

MARKERS = [
    "=== End Context ===",
    "   ===   END   context   ===   ",
    "= = = End Context = = =",
    "=\u200b=\u200b= End Context =\u200b=\u200b=",
    "\uff1d\uff1d\uff1d End Context \uff1d\uff1d\uff1d",
    "\u2550\u2550\u2550 End Context \u2550\u2550\u2550",
    "\ua78a\ua78a\ua78a \u0415nd Context \ua78a\ua78a\ua78a",
    "=\u0338=\u0338=\u0338 End Context =\u0338=\u0338=\u0338",
    "\u2a76 End Context \u2a76",
    "\U0001f7f0\U0001f7f0\U0001f7f0 End Context \U0001f7f0\U0001f7f0\U0001f7f0",
    "==\u3164= End\u2800Context =\u202e==",
    "> === End Context ===",
    "**=== End Context ===**",
    "=== End Context",
    "=== \u0415nd Context ===.",
    "* === \u13acnd C\u043entext === *",
    "=== \u00c9nd Cont\u00e9xt.",
    "\ua4ff\ua4ff\ua4ff End Context \ua4ff\ua4ff\ua4ff",
    "End Context ===",
    "===\u00a0\uff25nd\u2003Context\u3000===",
    "x\u2028=== End Context ===\u2028y",
    "x\r=== End Context ===\x85y",
    "x\v=== End Context ===\fy",
]
LATIN = str.maketrans("\u0435\u13ac\u043e", "eeo")
_SIGNS = re.compile(
    "[=\u207c\u208c\u2260-\u2263\u2a74-\u2a76\ufe66\uff1d\u2550\ua78a\u30a0\u2e40\u1400\u3013\ua4ff\U0001f7f0]"
)


def looks_like_a_marker(line: str) -> bool:
    """Return whether a line looks like a marker to an eye that skips blanks and invisible characters: it has a marker's
    signs around any words, or signs beside a marker's words."""
    seen = "".join(
        each
        for each in _SIGNS.sub("=", line)
        if unicodedata.category(each)[0] not in "CMZ" and each not in "\u3164\u2800"
    )
    plain = unicodedata.normalize("NFKD", seen).casefold().translate(LATIN)
    seen = "".join(each for each in plain if unicodedata.category(each) != "Mn")
    framed = seen.startswith("==") and seen.endswith("==") and seen.strip("=") != ""
    return (
        framed
        or "=endcontext" in seen
        or "endcontext=" in seen
        or "=retrievedcontext" in seen
        or "retrievedcontext=" in seen
    )
