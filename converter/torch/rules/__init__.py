"""Functions in place of torch's operators: every module ends with ``RULES``, operator (and overload) to function or
``Rule``. The functions take the operator's arguments, and compute in operators that torch.onnx exports right."""
