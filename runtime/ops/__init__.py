"""One module an operator; ``runtime.registry`` finds them."""
