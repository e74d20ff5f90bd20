"""Models come in here, are quantised and rewritten, and go out as .tflite."""
