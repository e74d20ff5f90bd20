"""Importers of Keras layers and operations, one file a family; each ends with ``IMPORTERS``."""
