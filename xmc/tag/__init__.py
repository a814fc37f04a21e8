"""Tagging: `Tagger` for a batch of documents, `TagJob` for files of any size, and the output formats."""
