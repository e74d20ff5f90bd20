"""The twin proof: it proves right models, and says exactly where something is wrong."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import cases_of, graph_of

from twinfer.bench.measure.embedded import agree
from twinfer.bench.models import verify as module
from twinfer.bench.models.source import Source, load
from twinfer.bench.models.verify import Difference, Line, Proof, Samples, compare, verify
from twinfer.command_line.show.matrix import describe, findings, sign
from twinfer.converter.build import Builder
from twinfer.runtime import registry
from twinfer.runtime.errors import ToolError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.poison import POISONS
from twinfer.runtime.walks import with_steps


def chain() -> Graph:
    """int8 [1, 4, 4, 2] -> reshape -> relu -> dense -> [1, 3]; the reshape has no step of its own."""
    rng = np.random.default_rng(4)
    b = Builder("chain")
    x = b.input("x", "INT8", (1, 4, 4, 2), scale=0.5, zero=3)
    y = b.op("RELU", [b.op("RESHAPE", [x, np.array([1, 32], np.int32)], shape=(1, 32))], scale=0.25, zero=-128)
    weights = b.constant(rng.integers(-127, 128, (3, 32), np.int8), scale=0.01)
    return b.graph([b.op("FULLY_CONNECTED", [y, weights, None], shape=(1, 3), scale=40, zero=7)])


def outputs_of_chain(inputs: Any) -> Any:
    interpreter = Interpreter.from_graph(chain())
    interpreter.allocate_tensors()
    interpreter.session.feed(inputs)
    interpreter.invoke()
    return interpreter.session.outputs()[0]


def prove(peers: tuple[str, ...] = (), **wanted: Any) -> Proof:
    return verify(Source("chain", chain()), peers, **wanted)


def test_the_worst_difference_is_kept() -> None:
    """One beyond the tolerance before one within; of two alike the larger, whichever sample came first."""
    ones = np.ones(3, np.float32)
    small, large = (compare(i, ones, ones + np.float32(by), 0.5) for i, by in enumerate((0.125, 0.25)))
    wrong, worse = (compare(i, ones, ones + np.float32(by), 0.5) for i, by in enumerate((1, 2), 2))
    order = [None, small, large, wrong, worse]
    for first, second in itertools.product(range(5), repeat=2):
        line = Line(chain().outputs[0], None)
        line.add("host", order[first])
        line.add("host", order[second])
        assert line.differences["host"] is order[max(first, second)]


def wrong_reference(monkeypatch: pytest.MonkeyPatch, op: str, at: tuple[int, ...], by: int) -> None:
    """Makes numpy compute one element of an operator's output wrongly."""
    right = registry.operators()[op]

    def reference(node: Any, inputs: Any) -> Any:
        (value,) = right.reference(node, inputs)
        value = value.copy()
        value[at] = np.clip(int(value[at]), -100, 100) + by
        return [value]

    monkeypatch.setattr(
        module, "operator", lambda n: replace(right, reference=reference) if n.op == op else registry.operator(n)
    )


def test_all_agree() -> None:
    proof = prove(samples=Samples(3))
    assert proof.proven
    assert [line.node.op for line in proof.lines if line.node] == ["RESHAPE", "RELU", "FULLY_CONNECTED"]
    for line in proof.lines:
        assert [sign(line, engine) for engine in ("numpy", "compiled", "tflm")] == ["=", "=", "·"]


def test_a_wrong_reference_is_found_where_it_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_reference(monkeypatch, "RELU", (0, 5), by=-28)
    proof = prove()
    faults = list(proof.faults())
    assert len(faults) == 1  # the dense layer's own arithmetic is right
    line, engine, difference = faults[0]
    assert line.node is not None
    assert (line.node.op, engine, difference.element, difference.sample) == ("RELU", "numpy", (0, 5), 0)
    assert difference.other == max(-100, min(100, difference.interpreted)) - 28
    text = describe(*faults[0])
    assert "RELU" in text
    assert "element [0, 5] of sample 0" in text


def test_a_wrong_kernel_parameter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Crooked(Interpreter):
        def _open(self, plan: Any, *more: Any) -> Any:
            last = plan.steps[-1]
            end = last.call.params["end"]
            call = replace(last.call, params={**last.call.params, "end": {**end, "zero": end["zero"] + 1}})
            crooked = replace(last, call=call, body=(call,))
            program = with_steps(plan.program, lambda step: crooked if step is last else step)
            return super()._open(replace(plan, program=program), *more)

    monkeypatch.setattr(module, "Interpreter", Crooked)
    faults = [(line.node.op if line.node else "", engine) for line, engine, _ in prove().faults()]
    assert faults == [("FULLY_CONNECTED", "numpy"), ("FULLY_CONNECTED", "compiled")]


def test_the_unobserved_run_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Moody(Interpreter):
        def invoke(self) -> None:
            super().invoke()
            self.session.view(self.plan.graph.outputs[0])[...] ^= 1

    monkeypatch.setattr(module, "Interpreter", Moody)
    assert not prove().proven


def test_peers(monkeypatch: pytest.MonkeyPatch) -> None:

    def isolated(peer: str, model: bytes, samples: Any, outputs: int) -> Any:
        if peer == "tflm" and refuses:
            raise ToolError("tflm refuses this model: no")
        return [[value ^ 1 if peer == "litert-ref" else value] for value in map(outputs_of_chain, samples)]

    monkeypatch.setattr(module, "isolate", isolated)
    refuses = False
    proof = prove(("tflm", "litert-ref"))
    assert proof.proven  # LiteRT differs, but TFLM's bits are ours
    assert [sign(proof.lines[-1], engine) for engine in ("tflm", "litert-ref")] == ["=", "≠"]
    refuses = True
    proof = prove(("tflm", "litert-ref"))
    assert proof.notes == {"tflm": "tflm refuses this model: no"}
    assert [engine for _, engine, _ in proof.faults()] == ["litert-ref"]


def rectifier() -> Source:
    """float32 [1, 40] -> RELU."""
    b = Builder("rectifier")
    return Source("rectifier", b.graph([b.op("RELU", [b.input("x", "FLOAT32", (1, 40))])]))


def test_special_values_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """RELU of a peer that makes the largest number of infinity is found; one that refuses such inputs is not held to
    them, which is said; one whose fault is known, too."""

    def isolated(peer: str, model: bytes, samples: Any, outputs: int) -> Any:
        if peer == "litert-ref" and any(np.isnan(x).any() for (x,) in samples):
            raise ToolError("litert-ref refuses NaN")
        most = np.float32(3.4028235e38) if peer == "tflm" else np.inf
        return [[np.minimum(np.where(x < 0, np.float32(0), x), np.float32(most))] for (x,) in samples]

    monkeypatch.setattr(module, "isolate", isolated)
    proof = verify(rectifier(), ("tflm", "litert-ref"))
    ((line, engine, difference),) = proof.faults()
    assert (engine, difference.sample, difference.interpreted) == ("tflm", module.SPECIAL, np.inf)
    assert "of special values: interpreted inf" in describe(line, engine, difference)
    assert proof.unheld == {"litert-ref": "litert-ref refuses NaN"}
    assert proof.notes == {}
    proof = verify(rectifier(), ("litert-ref",))
    assert proof.proven
    (text,) = [str(text) for text in findings([proof])]
    assert text.startswith("rectifier: proven on one sample and on special values (infinities, NaN")
    assert text.endswith("not on these: litert-ref refuses NaN")
    cast = Builder("cast")
    x = cast.input("x", "FLOAT32", (1, 40))
    known = verify(Source("cast", cast.graph([cast.op("CAST", [x], shape=(1, 40), type="INT32")])), ("litert-ref",))
    assert "not defined in C++" in known.unheld["litert-ref"]


def test_known_faults_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that differs where its fault is known gets a note; where it agrees, or no fault is known, it counts."""

    def isolated(peer: str, model: bytes, samples: Any, outputs: int) -> Any:
        return [[-x.astype(np.int8) + wrong] for (x,) in samples]

    def proof(op: str) -> Proof:
        b = Builder(op)
        x = b.input("x", "INT8", (1, 40), scale=1.0, zero=0)
        return verify(Source(op, b.graph([b.op(op, [x], scale=1.0, zero=0)])), ("litert-ref",))

    monkeypatch.setattr(module, "isolate", isolated)
    wrong = np.int8(1)
    (note,) = proof("NEG").notes.values()
    assert note.startswith("its outputs differ by a known fault: LiteRT ignores scales")
    assert proof("NEG").proven
    assert [engine for _, engine, _ in proof("ABS").faults()] == ["litert-ref"]
    wrong = np.int8(0)
    agrees = proof("NEG")
    assert (sign(agrees.lines[-1], "litert-ref"), agrees.notes) == ("=", {})


def test_all_twins_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter layer by layer and by rows, compiled code layer by layer; the last two over all rubbish."""
    seen, right = Counter[tuple[str, str]](), module.run_whole

    def run_whole(model: Interpreter, inputs: Any, byte: int) -> Any:
        seen[type(model).__name__, model.plan.options.memory] += 1
        return right(model, inputs, byte)

    monkeypatch.setattr(module, "run_whole", run_whole)
    assert prove().proven
    count = seen["Interpreter", "layers"]
    assert seen == {
        ("Interpreter", "layers"): count,
        ("Interpreter", "rows"): len(POISONS) * count,
        ("CompiledModel", "layers"): len(POISONS) * count,
    }


def test_unsupported_models_raise() -> None:
    b = Builder("custom")
    graph = b.graph([b.op("CUSTOM:Mystery", [b.input("x", "FLOAT32", (1,))], shape=(1,))])
    with pytest.raises(UnsupportedOperatorError):
        verify(Source("custom", graph))


@pytest.mark.parametrize("name", ["svdf-0", "svdf-1"])
def test_operators_with_a_state_are_proven_from_its_first_values(name: str) -> None:
    peers = tuple(peer for peer in ("tflm", "litert-ref") if module_installed(peer))
    proof = verify(Source("svdf", graph_of(cases_of("SVDF")[name].node)), peers, samples=Samples(2))
    assert proof.proven
    assert any("numpy" in line.differences for line in proof.lines)


def module_installed(peer: str) -> bool:
    from twinfer.bench.peers.engines import installed

    return installed(peer)


@pytest.mark.corpus("op", sample=12)
def test_corpus_models_are_proven(corpus_model: Any) -> None:
    try:
        proof = verify(load(str(corpus_model.path)))
    except UnsupportedOperatorError as error:
        pytest.skip(str(error))
    assert [describe(*fault) for fault in proof.faults()] == []


# -- differences -------------------------------------------------------------------------------------------------------


def difference(within: bool) -> Difference:
    return Difference(0, (0,), 1.0, 2.0, 1.0, within)


def test_integers_agree_bit_by_bit_and_floats_nearly() -> None:
    value = np.array([100.0, 1.0], np.float32)
    assert agree(value, value + np.float32(1e-6))
    assert not agree(value, value + np.float32(1))
    assert agree(value.astype(np.int8), value.astype(np.int8))
    assert not agree(value.astype(np.int8), value.astype(np.int8) + np.int8(1))


@pytest.mark.parametrize("seed", range(6))
def test_differences_of_random_values(seed: int) -> None:
    """Element by element: bits, NaN like NaN, the tolerance of the largest finite value, and which element is named."""
    rng = np.random.default_rng(seed)
    for kind in ("f4", "i1", "f4", "i4"):
        ours = (rng.standard_normal((2, 5)) * rng.choice([1e-6, 1, 1e4])).astype(kind)
        other = ours.copy()
        for at in rng.integers(0, 10, rng.integers(0, 4)):
            step = rng.choice([1e-7, 1e-4, 2]) * (np.abs(ours).max() if kind == "f4" else 4)
            other.reshape(-1)[at] += np.asarray(step).astype(kind)
        if kind == "f4":
            for at in rng.integers(0, 10, rng.integers(0, 3)):
                ours.reshape(-1)[at] = other.reshape(-1)[at] = rng.choice([np.nan, np.inf, -np.inf, -0.0])
        tolerance = float(rng.choice([0, 1e-5]))
        found = compare(7, ours, other.reshape(10) if seed % 2 else other, tolerance)
        pairs = list(zip(ours.reshape(-1).tolist(), other.reshape(-1).tolist(), strict=True))
        apart = [i for i, (a, b) in enumerate(pairs) if not (a != a and b != b) and (a != b)]
        if not apart:
            assert found is None
            continue
        largest = max(abs(pairs[i][0] - pairs[i][1]) for i in apart)
        allowed = tolerance * max((abs(a) for a, _ in pairs if np.isfinite(a)), default=0)
        far = [i for i in apart if abs(pairs[i][0] - pairs[i][1]) > allowed]
        named = (far or apart)[0]
        assert found is not None
        assert (found.sample, found.element) == (7, divmod(named, 5))
        assert (found.interpreted, found.other) == pairs[named]
        assert found.largest == pytest.approx(largest)
        assert found.within == (kind == "f4" and tolerance > 0 and not far)


def test_differences_at_their_limits() -> None:
    """One that is just allowed; the first that is not is named; a NaN of other bits is a NaN, a number is none."""
    ours = np.array([4.0, 1.0, 1.0], np.float32)
    for tolerance, within, element in ((0.5, True, 0), (0.4999, False, 2), (0.1, False, 2)):
        found = compare(0, ours, ours + np.array([0.1, 0, 2], np.float32), tolerance)
        assert found is not None
        assert (found.within, found.element) == (within, (element,))
    odd = np.array([np.nan, 1.0], np.float32)
    payload = odd.copy()
    payload.view(np.uint32)[0] = 0xFFC12345
    assert compare(0, odd, payload, 0) is None
    for a, b in ((np.nan, 0.0), (0.0, np.nan)):
        found = compare(0, np.array([1, a], np.float32), np.array([1, b], np.float32), 1e-5)
        assert found is not None
        assert (found.within, found.element, found.largest) == (False, (1,), np.inf)
