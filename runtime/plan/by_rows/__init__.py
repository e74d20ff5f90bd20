"""Layers that run row by row: which chains there are, what they cost, what they keep, and the proof of that."""
