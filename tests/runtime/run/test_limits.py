"""Ctrl-C ends whatever runs, and what a run may take has limits that can be raised."""

from __future__ import annotations

import json
import operator
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flows import Sub
from limits import SAYS_BEGUN

import twinfer
from twinfer.aot.build.host import compile_plans
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError, ModelError
from twinfer.runtime.graph import Graph, Signature
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run import limits
from twinfer.runtime.run.session import Session
from twinfer.runtime.run.stream import METADATA

BY_ROWS = Options(memory="rows", input_rows=True)

#: What runs in a process until Ctrl-C: the model is in sys.argv[1], and says that it has begun.
BEGINS = f"""{SAYS_BEGUN}
import threading
import numpy as np
import twinfer

def ready(make=twinfer.Interpreter, **how):
    interpreter = make(sys.argv[1], **how)
    interpreter.allocate_tensors()
    return interpreter
"""

#: Every one is in a long call when Ctrl-C comes, and must see KeyboardInterrupt.
WAYS = {
    "invoke": "ready().invoke()",
    "threads": "ready(num_threads=3).invoke()",
    "compiled": "ready(twinfer.compile).invoke()",
    "layer by layer": "ready(on_call=print).invoke()",
    "signature": "ready().get_signature_runner('main')(x=np.zeros((1, 512, 512, 32), np.float32))",
    "stream": "list(ready().stream([np.zeros((512, 512 * 32), np.float32)]))",
    "profile": "ready().session.profile(1)",
    "handler of one's own": (
        "import signal\n"
        "def raises(*_): raise KeyboardInterrupt('own')\n"
        "signal.signal(signal.SIGINT, raises)\n"
        "ready().invoke()"
    ),
    "pool of threads": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(2) as pool:\n"
        "    for one in [pool.submit(ready().invoke) for _ in range(9)]: one.result()"
    ),
    "a thread alone": (
        "thread = threading.Thread(target=ready().invoke)\n"
        "threading.excepthook = lambda about: None\n"
        "thread.start()\n"
        "while thread.is_alive(): thread.join(0.1)"
    ),
}


def heavy() -> Graph:
    """One layer of 10^12 multiply-accumulates: many seconds on any machine."""
    b = Builder("heavy")
    x = b.input("x", "FLOAT32", (1, 512, 512, 32))
    weights = np.full((32, 63, 63, 32), 0.001, np.float32)
    y = b.op("CONV_2D", [x, weights, np.zeros(32, np.float32)], padding="SAME", stride_h=1, stride_w=1)
    graph = b.graph([y])
    signature = Signature("main", {"x": graph.inputs[0]}, {"y": graph.outputs[0]})
    metadata = {METADATA: json.dumps({"axis": 1, "rows": 512}).encode()}
    return replace(graph, signatures=(signature,), metadata=metadata)


@pytest.fixture(scope="module")
def heavy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("heavy") / "heavy.tflite"
    heavy().save(path)
    return path


def heed_ctrl_c() -> None:
    """For the start of a child process: nohup ignores Ctrl-C, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_ends_a_long_layer(way: str, heavy_file: Path) -> None:
    ends_by_ctrl_c(WAYS[way], heavy_file)


def test_ctrl_c_ends_an_endless_loop_that_is_compiled(tmp_path: Path) -> None:
    counting(2**30).save(tmp_path / "endless.tflite")  # a float32 stops growing at 2^24
    ends_by_ctrl_c(WAYS["compiled"], tmp_path / "endless.tflite")


def ends_by_ctrl_c(lines: str, file: Path) -> None:
    code = f"{BEGINS}\ntry:\n" + "".join(f"    {line}\n" for line in lines.splitlines())
    code += "except KeyboardInterrupt:\n    os.write(2, b'interrupted\\n')\n    sys.exit(3)\n"
    command = [sys.executable, "-c", code, str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline() == "begun\n"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=1200)
        finally:
            process.kill()
    said = [line for line in err.splitlines() if line != "begun"]
    assert (process.returncode, said) == (3, ["interrupted"])


@pytest.mark.parametrize("how", ["interpreted", "compiled"])
@pytest.mark.parametrize("then", ["reset_variables", "run", "feed_rows.begin"])
def test_whatever_comes_next_waits_for_the_layer(then: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset, and the first rows of an input that comes row by row, write memory that the layer works on."""
    monkeypatch.setattr(limits, "LONG", 0)
    b = Builder("two")
    plan = make_plan(b.graph([b.op("EXP", [b.op("NEG", [b.input("x", "FLOAT32", (1, 8))])])]), options=BY_ROWS)
    session = Session(plan) if how == "interpreted" else compile_plans({"two": plan})["two"]
    go_on, begun, done = threading.Event(), threading.Event(), threading.Event()

    def broken_off() -> None:
        begun.set()
        go_on.wait(30)
        done.set()

    with monkeypatch.context() as patch:
        patch.setattr(limits, "_wait", interrupts(begun))
        with pytest.raises(KeyboardInterrupt):
            session._long_call.call(session, broken_off)
    threading.Timer(0.2, go_on.set).start()
    operator.attrgetter(then)(session)()
    assert done.is_set()


def interrupts(begun: threading.Event) -> Any:
    def wait(_: Any) -> None:
        begun.wait(30)
        raise KeyboardInterrupt

    return wait


@pytest.mark.parametrize("make", [lambda graph: Session(make_plan(graph)), twinfer.compile])
def test_memory_has_a_limit(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 GiB are refused, and nothing was taken; what is allowed to the byte runs."""
    b = Builder("large")
    x = b.input("x", "FLOAT32", (1, 1 << 28))
    graph = b.graph([b.op("EXP", [x])])
    with pytest.raises(ModelError, match=r"'large' needs \d+ bytes .* 1073741824; the limit is 1073741824: set TWINF"):
        make(graph)

    b = Builder("small")
    x = b.input("x", "FLOAT32", (1, 64))
    graph = b.graph([b.op("EXP", [x])])
    plan = make_plan(graph)
    needed = plan.buffer_bytes + 256
    monkeypatch.setenv("TWINFER_MAX_BYTES", str(needed))
    Session(plan).run()
    monkeypatch.setenv("TWINFER_MAX_BYTES", str(needed - 1))
    with pytest.raises(ModelError, match=f"'small' needs {needed} bytes .*TWINFER_MAX_BYTES={needed} "):
        Session(plan)
    monkeypatch.setenv("TWINFER_MAX_BYTES", "1G")
    with pytest.raises(InvalidArgumentError, match="TWINFER_MAX_BYTES=1G: it must be a whole number"):
        Session(plan)


def floats(value: float) -> np.ndarray[Any, Any]:
    return np.array([value], np.float32)


def counting(rounds: int) -> Graph:
    """Three rounds, in each of which another loop goes round as often as said; the result is the number of all."""
    tests, inner, outer, main = (Sub("three"), Sub("many")), Sub("inner"), Sub("outer"), Sub("main")
    graphs = []
    for sub, most in zip(tests, (3, rounds), strict=True):
        n = sub.input()
        sub.input()
        graphs.append(sub.graph([sub.less(n, floats(most))]))
    n, total = inner.input(), inner.input()
    graphs.append(inner.graph([inner.add(n, floats(1)), inner.add(total, floats(1))]))
    n, total = outer.input(), outer.input()
    _, total = outer.loop(2, 3, [outer.constant([0]), total])
    graphs.append(outer.graph([outer.add(n, floats(1)), outer.add(total, floats(1))]))
    return main.graph(main.loop(1, 4, [main.input(), main.input()])[1:], *graphs)


def test_the_rounds_of_all_loops_of_a_run_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (33, 32):
        monkeypatch.setenv("TWINFER_MAX_ROUNDS", str(most))
        session = Session(make_plan(counting(10)))
        for _ in range(2):  # every run begins anew
            session.feed([floats(0), floats(0)])
            if most == 33:
                session.run()
                assert session.outputs()[0] == [33]
            else:
                with pytest.raises(ModelError, match=r"gone round 32 times in one run .*TWINFER_MAX_ROUNDS"):
                    session.run()


def test_commands_raise_the_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "counting.tflite"
    counting(10).save(path)
    for command in (["run", str(path)], ["compile", str(path), "-o", str(tmp_path / "c")], ["verify", str(path)]):
        more = ["--against", "none"] if command[0] == "verify" else []
        assert main([*command, *more, "--max-rounds", "5"]) == 2
        said = capsys.readouterr().err
        assert "5 times" in said
        assert "--max-rounds" in said
        assert main([*command, *more, "--max-bytes", "9"]) == 2
        assert "--max-bytes" in capsys.readouterr().err
        assert main([*command, *more, "--max-rounds", "33", "--max-bytes", "1000"]) == 0
        assert os.environ.get("TWINFER_MAX_ROUNDS") is None


def by_constant(sub: Sub) -> Any:
    """A counter that begins at a constant; the value that goes round with it is an input."""
    return sub.loop(1, 2, [sub.constant([0]), sub.input()])


def by_input(sub: Sub) -> Any:
    return sub.loop(1, 2, [sub.input(), sub.constant([0])])


def by_what_is_computed(sub: Sub) -> Any:
    x = sub.input()
    return sub.loop(1, 2, [sub.mul(sub.add(x, floats(1)), floats(0)), x])


def by_variable(sub: Sub) -> Any:
    """The counter begins where the run before has ended."""
    handle = sub.handle()
    ends = sub.loop(1, 2, [sub.read(handle), sub.input()])
    sub.assign(handle, ends[0])
    return ends


def behind_a_loop(sub: Sub) -> Any:
    """The second loop begins where the input of the first has led."""
    first = sub.loop(1, 2, [sub.constant([0]), sub.input()])
    return sub.loop(1, 2, [first[1], sub.constant([0])])


@pytest.mark.parametrize(
    ("way", "steady"),
    [
        (by_constant, True),
        (by_input, False),
        (by_what_is_computed, False),
        (by_variable, False),
        (behind_a_loop, False),
    ],
)
def test_loops_that_end_once_end_always(way: Any, steady: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled, only the first run is made beside Python where no loop depends on what changes."""
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    n = test.input()
    test.input()
    graphs = [test.graph([test.less(n, floats(3))])]
    n, y = body.input(), body.input()
    graphs.append(body.graph([body.add(n, floats(1)), body.add(y, floats(2))]))
    graph = main.graph(way(main), *graphs)
    assert make_plan(graph).steady == steady
    model, calls = twinfer.compile(graph), list[object]()
    real = limits.Long.call
    monkeypatch.setattr(limits.Long, "call", lambda *given: (calls.append(given), real(*given)))
    monkeypatch.setattr(limits, "SHORT", 60)
    for _ in range(3):
        model.invoke()
    assert len(calls) == (1 if steady else 3)


def test_a_loop_in_a_branch_that_an_input_decides_is_not_steady() -> None:
    test, body, then, orelse, main = (Sub(name) for name in ("test", "body", "then", "else", "main"))
    graphs = [test.graph([test.less(test.input(), floats(3))]), body.graph([body.add(body.input(), floats(1))])]
    then.input()
    graphs.append(then.graph(then.loop(1, 2, [then.constant([0])])))
    graphs.append(orelse.graph([orelse.input()]))
    x, c = main.input(), main.input(type="BOOL")
    assert not make_plan(main.graph(main.branch(c, 3, 4, [x], [x]), *graphs)).steady


def test_a_large_model_that_is_quick_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LONG", 0)
    b = Builder("two")
    x = b.input("x", "FLOAT32", (1, 8))
    plan = make_plan(b.graph([b.op("EXP", [b.op("NEG", [x])])]))
    for short, calls in ((60, [2, 0, 0]), (0, [2, 2, 2])):
        monkeypatch.setattr(limits, "SHORT", short)
        session, made = Session(plan), []
        monkeypatch.setattr(limits.Long, "call", lambda self, owner, call, made=made: made.append(call()))
        for want in calls:
            made.clear()
            session.run()
            assert len(made) == want
