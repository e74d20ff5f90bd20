"""Models that others wrote, converted and run: what is right, what is refused and why (``make suites``)."""
