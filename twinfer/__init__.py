"""twinfer."""
