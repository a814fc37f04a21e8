"""How good suggestions are: metrics by rank, propensity, threshold and label bin, with intervals."""
