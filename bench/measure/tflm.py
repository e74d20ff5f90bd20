"""The figures of TensorFlow Lite for Microcontrollers, measured once and stored in ``data/peers_cortex_m.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from twinfer.bench.measure.compare import Row
from twinfer.bench.models.source import Source

_FILE = Path(__file__).resolve().parents[1] / "data" / "peers_cortex_m.toml"


#: Engines of the table -> their names in tables of ours.
LABELS = {"tflm-cmsis": "TFLM + CMSIS-NN", "tflm-cmsis-small": "TFLM + CMSIS, -Os", "tflm-reference": "TFLM reference"}


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def tflm_rows(source: Source, target: str) -> list[Row]:
    """One row per engine that was measured with this model on that core. A built-in model gets its namesake's rows,
    "alike". The whole model file is in flash, beside the code."""
    tables = _tables()
    named = source.path is None and tables["alike"].get(source.name)
    model = named or tables["models"].get(source.sha256)
    rows = []
    for engine, cores in tables["engines"].items():
        figures = cores.get(target, {}).get(model)
        if figures is not None:
            about = {"model": source.name, "engine": engine, "target": target, "same_bits": None, "macs": None}
            rows.append({**about, **dict(zip(tables["columns"], figures, strict=True))})
            rows[-1]["recorded"] = f"alike: {model}" if named else model
            rows[-1]["weights_floor_bytes"] = tables["weights_floor_bytes"].get(model)
    return rows
