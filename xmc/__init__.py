"""Extreme multi-label classification: the few right labels out of thousands to millions."""

__version__ = "0.1.0"
