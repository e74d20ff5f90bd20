"""Models come in here, are quantised and rewritten, and go out as .tflite."""

#: Suffixes of the files that frameworks write and ``twinfer convert`` reads.
TO_CONVERT = (".onnx", ".keras", ".pt2")
