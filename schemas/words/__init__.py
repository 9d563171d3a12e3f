"""Words of any language: how a text is split into them, in which language it is, and which words say nothing."""
