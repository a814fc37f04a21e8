"""Changing a model without building it anew: labels and remembered documents, in and out.

- ``labels``: add, replace, retire, restore and compact, each a function from a model to a changed one
- ``documents``: documents into the memory and out of it
- ``fold``: the vectors of labels whose text or documents changed
- ``change``: a change of the model artifact on disk, whole or not at all
"""
