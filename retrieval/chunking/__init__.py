"""Split documents into chunks, by three profiles.

*sections* (`split_sections`): a chunk for each heading, for models with a small window.
*whole* (`split_whole`): whole documents up to the model's limit, longer ones at `##`, then `###` (contract *rules*).
*windows* (`split_windows`): chunks of similar size that overlap (contract *documents*).

No chunk is a heading alone: it goes with the text below it or, at the end, above it, and a chunk's section is that of
the heading above its first text. All of them only choose places to cut: no text is lost, and none is repeated except
the overlaps of windows, the header of a section of *whole*, and the header of a table, which stands above each of its
pieces.
"""

from retrieval.chunking.markdown_blocks import Chunk, SplitDocument, StructuredText, Syntax, opening_heading
from retrieval.chunking.sections import estimate_tokens, split_sections
from retrieval.chunking.whole import split_whole
from retrieval.chunking.windows import split_windows

__all__ = [
    "Chunk",
    "SplitDocument",
    "StructuredText",
    "Syntax",
    "estimate_tokens",
    "opening_heading",
    "split_sections",
    "split_whole",
    "split_windows",
]
