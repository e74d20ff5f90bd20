"""For those who stay with TFLM: what a model needs there."""
