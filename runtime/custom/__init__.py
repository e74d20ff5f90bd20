"""Operators of the user's own: a folder of kernels' headers and operators' modules, checked, compiled and loaded."""
