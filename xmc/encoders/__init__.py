"""Texts to vectors: the dense tower, the lexical tower, and both side by side."""
