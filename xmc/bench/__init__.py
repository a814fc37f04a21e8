"""Benchmarks: a data set and a system in, one JSON line out, with what each stage cost."""
