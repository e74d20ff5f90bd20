"""Turns a model over a sliding window into one that takes only the new rows and keeps what it needs of the others."""
