"""Documents into chunks, by three profiles.

*sections* (`split_markdown`, `split_text`): a chunk for each heading, for models that read little.
*whole* (`split_whole`): whole documents as far as the model's limit goes, then at `##`, then at `###` (seed 001).
*windows* (`split_windows`): chunks of like size that overlap (seed 002).
"""

from retrieval.chunking.boundaries import Syntax
from retrieval.chunking.chunk import Chunk
from retrieval.chunking.markdown import MarkdownDocument, markdown_title
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
    "markdown_title",
    "split_markdown",
    "split_text",
    "split_whole",
    "split_windows",
]
