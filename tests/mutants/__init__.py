"""Mutation test of the project: small faults planted one by one, each of which a test must notice (``make mutants``)."""
