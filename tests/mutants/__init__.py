"""Mutation test of the project: small faults, planted one by one, which a test must notice (``make mutants``)."""
