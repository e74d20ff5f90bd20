"""What a model's memory is made of: how much a plan takes, what forces that, and what would change it."""
