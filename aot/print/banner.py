"""The first line of every emitted file: what made it, and for whom."""

from __future__ import annotations

from importlib import metadata

from twinfer.aot.print.literals import comment
from twinfer.runtime.plan.plan import Plan


def version() -> str:
    """This tool's version, as installed."""
    try:
        return metadata.version("twinfer")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def banner_of(plan: Plan, name: str) -> str:
    return f"/* {name}: made by twinfer {version()} for target {comment(_wanted(plan), 300)}. Do not edit. */"


def _wanted(plan: Plan) -> str:
    """Target and options in words."""
    options = plan.options
    words = [plan.target.name, *([] if options.mode == "compiled" else [options.mode])]
    words += [] if options.weights == "file" else [f"weights {options.weights}, decoded at the {options.decode}"]
    words += [] if options.memory == "auto" else [f"memory by {options.memory}"]
    words += [f"at most {options.ram} bytes of RAM"] if options.ram else []
    words += ["input by rows"] if options.input_rows else []
    words += ["input in place"] if options.input_in_place else []
    return ", ".join(words if options.optimize == "balanced" else [*words, f"for {options.optimize}"])
