"""Words of any language: how a text is split into them, and which of them say nothing."""
