"""One vector index per label set: exact search, FAISS kinds, and how a kind is chosen.

Nothing is imported here, so that ``import xmc.index`` stays cheap; start at :mod:`xmc.index.kinds`.
"""
