"""The search for the cheapest quantisation inside a budget of accuracy: ``find.search`` is its front door."""
