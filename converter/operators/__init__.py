"""One row per TFLite operator, in families: every module ends with ``ROWS``, name to ``facts.Row``.

A new operator is one row here. Sources: LiteRT's "8-bit quantization specification" and TFLite's
tools/optimize/operator_property.cc (same scales, fixed scales); int16x8 and int4 by what LiteRT's reference kernels
accept; versions by LiteRT's tflite/tools/versioning/op_version.cc, which says what each version takes. Where it does
not say for int16 activations with int8 weights: what TFLite's converter writes.
"""
