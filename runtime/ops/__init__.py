"""One module per operator; ``runtime.registry`` finds them."""
