"""Weights made smaller: pruned (``prune``), clustered (``cluster``), and what that is worth in flash (``footprint``).

All are functions of graphs whose weights are float or integers; what comes out is an ordinary model. Storing the few
distinct values or the many zeros in less flash is the compiler's job, without loss.
"""
