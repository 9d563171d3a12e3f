"""The parsers of the kinds of documents, bytes in and Markdown out, and the confined process in which they run."""
