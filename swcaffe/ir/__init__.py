"""Tensor programs: immutable trees that separate visitors verify, run, count and print."""
