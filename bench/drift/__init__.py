"""Figures of ``twinfer bench`` beside those of before: kept, compared, shown."""
