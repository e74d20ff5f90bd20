"""The importers: every module ends with ``IMPORTERS = {"<Operator>": function, …}`` and is found by ``registry.py``."""
