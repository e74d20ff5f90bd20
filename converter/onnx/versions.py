"""Opsets: which ones are read, and how others become these."""

from __future__ import annotations

import onnx
import onnx.version_converter

from twinfer.runtime.errors import ModelError

#: Opsets that are read as they are, and those that ONNX's own converter raises first.
OPSETS = range(11, 29)
OLD = range(1, 11)

#: The last opset that the importers were written for. Later ones are read where an operator has nothing more.
KNOWN = 25

#: Attributes and inputs beyond KNOWN that importers know.
ALSO_KNOWN = frozenset[tuple[str, str]]()


def raised(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in an opset that is read; ModelError if it has another one."""
    opset = next((o.version for o in model.opset_import if not o.domain), None)
    if opset is None or opset in OPSETS:  # none: it has operators of other domains only
        return model
    if opset not in OLD:
        newer = "; for newer ones update twinfer and onnx" if opset > OPSETS[-1] else ""
        raise ModelError(
            f"the model has opset {opset}; opsets {OLD.start} to {OPSETS.stop - 1} are read: "
            f"export it with opset 17 or 21{newer}"
        )
    if opset == 8 and any(node.op_type == "Scan" and not node.domain for node in model.graph.node):
        raise ModelError("Scan of opset 8 runs over batches, which later ones do not: export it with opset 17 or 21")
    try:
        return onnx.version_converter.convert_version(model, OPSETS.start)
    except Exception as error:  # it does not say what it raises
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"the model has opset {opset}, and ONNX's version converter cannot make opset {OPSETS.start} of it "
            f"({reason}): export it with opset 17 or 21"
        ) from None


def additions(proto: onnx.NodeProto, opset: int) -> str:
    """What the node has that its operator did not have in opset KNOWN; "" if nothing."""
    if opset <= KNOWN or proto.domain:
        return ""
    try:
        old = onnx.defs.get_schema(proto.op_type, KNOWN)
        new = onnx.defs.get_schema(proto.op_type, opset)
    except onnx.defs.SchemaError:  # a new operator
        return ""
    if old.since_version == new.since_version:
        return ""
    default = {name: a.default_value for name, a in new.attributes.items()}
    more = [a.name for a in proto.attribute if a.name not in old.attributes and a != default.get(a.name)]
    names = [each.name for each in (*new.inputs, *new.outputs)]
    given = [*proto.input, *[""] * (len(new.inputs) - len(proto.input)), *proto.output]
    had = {each.name for each in (*old.inputs, *old.outputs)}
    more += [name for name, value in zip(names, given, strict=False) if value and name not in had]
    unknown = [name for name in more if (proto.op_type, name) not in ALSO_KNOWN]
    what = f"{' and '.join(unknown)}, which opset {new.since_version} added; export the model with opset 21"
    return what if unknown else ""
