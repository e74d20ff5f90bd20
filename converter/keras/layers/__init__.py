"""Importers of Keras layers and operations, one file per family; each ends with ``IMPORTERS``."""
