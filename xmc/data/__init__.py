"""Text files in, `LabelSet` and `Corpus` out; one module per format. Start at `formats`."""
