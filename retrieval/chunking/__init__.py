"""Split documents into chunks, by three profiles.

*sections* (`split_markdown`, `split_text`): a chunk for each heading, for models with a small window.
*whole* (`split_whole`): whole documents up to the model's limit, longer ones at `##`, then `###` (contract *rules*).
*windows* (`split_windows`): chunks of similar size that overlap (contract *documents*).

All of them only choose places to cut: no text is lost, and none is repeated except the overlaps of windows, the header
of a section of *whole*, and the header of a table, which stands above each of its pieces.
"""

from retrieval.chunking.boundaries import Syntax
from retrieval.chunking.chunks import Chunk
from retrieval.chunking.markdown_blocks import MarkdownDocument, highest_heading, markdown_title
from retrieval.chunking.sections import DEFAULT_MAX_TOKENS, estimate_tokens, split_markdown, split_text
from retrieval.chunking.whole import SplitDocument, split_whole
from retrieval.chunking.windows import split_windows

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "Chunk",
    "MarkdownDocument",
    "SplitDocument",
    "Syntax",
    "estimate_tokens",
    "highest_heading",
    "markdown_title",
    "split_markdown",
    "split_text",
    "split_whole",
    "split_windows",
]
