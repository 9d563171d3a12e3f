"""The word index: how text is split into words, stored in segments and ranked."""
