"""The second stage: the best candidates of a document scored again by attention over what was retrieved."""
