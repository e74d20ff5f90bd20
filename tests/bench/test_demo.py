"""``twinfer demo``: the page in Chromium, with a microphone and a camera that are not there, and its bits."""

from __future__ import annotations

import base64
import threading
import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, faults, need_browser
from needs import need_tools

from twinfer.bench.demo.features import features
from twinfer.bench.demo.site import write_site
from twinfer.bench.demo.sound import FFT, FRAME, FRAMES, RATE, mel, spectrogram
from twinfer.bench.demo.tasks import task_of
from twinfer.bench.models.source import Source, load
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.run.interpreter import Interpreter

pytestmark = pytest.mark.usefixtures("kept_builds")

#: What stands for a visitor's microphone and camera: Chromium's tones, and its turning disc.
FAKES = ("--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")


def sums(name: str = "sums") -> Source:
    """A model of two floats: sliders."""
    b = Builder(name)
    x, y = b.input("x", "FLOAT32", (1, 3)), b.input("y", "FLOAT32", (1, 3))
    return Source(name, b.graph([b.op("ADD", [x, y])]))


@contextmanager
def opened(folder: Path, name: str, width: int = 390, theme: str = "dark", *flags: str) -> Iterator[Any]:
    """The page with a model in it, from a server on this computer; afterwards nothing must have gone wrong."""
    from playwright.sync_api import sync_playwright

    need_browser()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FAKES, *flags])
            page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=theme)
            page.said = []
            page.on("console", lambda message: page.said.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: page.said.append(f"error: {error}"))
            page.goto(f"http://127.0.0.1:{server.server_port}/#{name}")
            page.wait_for_function("document.documentElement.dataset.drawn === 'yes'")
            yield page
            assert not [line for line in page.said if line.startswith(("error", "warning"))]
            browser.close()
    finally:
        server.shutdown()
        server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def check_last(page: Any, graph: Graph) -> list[Array]:
    """What the page's model gave last is what the interpreter gives for the same input; returns the outputs."""
    last = page.evaluate("last()")
    interpreter = Interpreter.from_graph(graph)
    given = []
    for tensor, text in zip(graph.inputs, last["inputs"], strict=True):
        data = base64.b64decode(text)
        given.append(np.frombuffer(data, tensor.dtype if len(data) == tensor.nbytes else "<f4").reshape(tensor.shape))
    outputs = interpreter.run(given if len(given) > 1 else given[0], integers=True)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    assert [output.tobytes() for output in outputs] == [base64.b64decode(text) for text in last["outputs"]]
    return outputs


def check_page(page: Any) -> None:
    """Nothing is drawn wrongly, the keyboard reaches all, and both engines have the bits of Python's."""
    assert not faults(page)
    assert page.locator("[data-bits]").get_attribute("data-bits") == "same"
    page.wait_for_function("[...document.querySelectorAll('.race b')].every((time) => /[mµ]s/.test(time.textContent))")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_tools("clang", "wasm-ld")
    folder = tmp_path_factory.mktemp("demo") / "site"
    write_site([load("digits_int8"), sums()], folder)
    return folder


def test_drawn_digits_are_read(site: Path) -> None:
    """Every example, with the bits of the interpreter; and what a visitor draws."""
    graph = load("digits_int8").graph
    with opened(site, "digits_int8") as page:
        check_page(page)
        read = []
        for _ in range(10):
            page.get_by_role("button", name="An example").click()
            (output,) = check_last(page, graph)
            read.append(int(output.argmax()))
        assert sorted(read) == list(range(10))
        page.get_by_role("button", name="Clear").click()
        box = page.locator(".pad").bounding_box()
        page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.1 * box["height"])
        page.mouse.down()
        page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.9 * box["height"], steps=5)
        page.mouse.up()
        (output,) = check_last(page, graph)
        assert output.argmax() == 1
        assert page.locator(".answer").inner_text().startswith("1")


def test_the_arena_goes_layer_by_layer(site: Path) -> None:
    with opened(site, "digits_int8", 1280, "light") as page:
        page.get_by_role("button", name="Pause").click()
        slider = page.get_by_role("slider", name="Layer")
        seen = []
        for layer in range(8):
            slider.fill(str(layer))
            seen.append((page.locator(".now").inner_text(), page.locator(".live li").count()))
        assert len({text for text, _ in seen}) == 8
        assert all(count for _, count in seen)
        page.get_by_text("Every layer").click()
        page.wait_for_selector(".table tbody tr")  # the layers are timed first
        assert page.locator(".table tbody tr").count() == 7


def test_another_model_has_sliders(site: Path) -> None:
    with opened(site, "sums") as page:
        check_page(page)
        page.get_by_role("link", name="digits").click()
        page.wait_for_selector(".pad")
        page.get_by_role("link", name="sums").click()
        page.wait_for_selector(".sliders")
        page.locator(".sliders input").first.fill("0.5")
        (output,) = check_last(page, sums().graph)
        assert output.shape == (1, 3)


def sound(file: Path) -> None:
    """Two seconds of a voice, more or less: pulses through changing tones."""
    at = np.arange(2 * RATE) / RATE
    tone = np.sin(2 * np.pi * (300 + 500 * np.sin(3 * at)) * at) * (np.sin(2 * np.pi * 110 * at) > 0.3) * (at % 1 > 0.3)
    with wave.open(str(file), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes((12000 * tone).astype("<i2").tobytes())


@pytest.mark.deep
def test_a_microphone_and_a_camera(tmp_path: Path) -> None:
    """What is heard and seen changes the model's input; its outputs are the interpreter's."""
    need_tools("clang", "wasm-ld")
    sound(tmp_path / "voice.wav")
    names = ("kws_int8", "vww_int8", "ic_int8")
    write_site([load(name) for name in names], tmp_path / "site")
    for name in names:
        flag = f"--use-file-for-fake-audio-capture={tmp_path / 'voice.wav'}"
        with opened(tmp_path / "site", name, 390, "dark", flag) as page:
            check_page(page)
            before = page.evaluate("last()")["inputs"]
            page.get_by_role("button", name="Start the").click()
            page.wait_for_function("(before) => last().inputs[0] !== before", arg=before[0])
            page.wait_for_timeout(1500)
            page.get_by_role("button", name="Stop the").click()
            page.wait_for_timeout(300)
            check_last(page, load(name).graph)


def test_the_spectrogram_is_that_of_its_formula() -> None:
    rng = np.random.default_rng(1)
    frames = rng.uniform(-1, 1, (FRAMES, FRAME)).astype(np.float32) * np.linspace(0, 1, FRAMES, dtype="f4")[:, None]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    size = np.abs(np.fft.rfft(frames * hann, FFT))
    loud = np.log(size @ mel(FFT // 2 + 1).T + 1e-6)
    cosines = np.cos(np.pi * np.arange(10)[:, None] * (np.arange(40) + 0.5) / 40)
    want = 2 * loud @ cosines.T / np.sqrt(2 * 40)
    got = Interpreter.from_graph(spectrogram()).run(frames)
    np.testing.assert_allclose(got[0, :, :, 0], want, rtol=1e-4, atol=1e-3)


def test_features_are_those_of_tflm(corpus: Path) -> None:
    """Bit for bit those of its model of the front end, which scales them to int8 at the end."""
    ours, theirs = (
        Interpreter.from_graph(features()),
        Interpreter(corpus / "models" / "tflm_audio_preprocessor_int8.tflite"),
    )
    rng = np.random.default_rng(1)
    for loud in np.tile([3, 300, 9000], 15):
        frame = rng.normal(0, loud, (1, FRAME)).clip(-32768, 32767).astype(np.int16)
        feature = ours.run(frame, integers=True).astype(int)
        want = theirs.run(frame, integers=True)
        np.testing.assert_array_equal(np.clip((feature * 256 + 333) // 666 - 128, -128, 127), want)


def test_a_stream_listens(tmp_path: Path) -> None:
    """A model that remembers gets features of the microphone, the newest alone."""
    need_tools("clang", "wasm-ld")
    b = Builder("wake")
    x = b.input("x", "FLOAT32", (1, 3, 40))
    flat = b.op("RESHAPE", [x, np.array([1, 120], np.int32)], shape=(1, 120))
    weights = np.full((1, 120), 1e-3, np.float32)
    graph = b.graph([b.op("FULLY_CONNECTED", [flat, weights, None], shape=(1, 1))])
    write_site([Source("wake", graph)], tmp_path / "site")
    with opened(tmp_path / "site", "wake") as page:
        check_page(page)
        before = page.evaluate("last()")["inputs"]
        page.get_by_role("button", name="Start the").click()
        page.wait_for_function("(before) => last().inputs[0] !== before", arg=before[0])
        page.get_by_role("button", name="Stop the").click()
        page.wait_for_timeout(300)
        check_last(page, graph)


@pytest.mark.parametrize(
    ("shape", "classes", "kind", "first"),
    [
        ((1, 8, 8, 1), 10, "digit", "0"),
        ((1, 28, 28), 10, "digit", "0"),
        ((1, 49, 10, 1), 12, "words", "down"),
        ((1, 49, 10, 1), 3, "words", ""),
        ((1, 96, 96, 1), 2, "camera", "nobody"),
        ((1, 224, 160, 3), 5, "camera", ""),
        ((1, 640), 640, "numbers", ""),
        ((1, 3, 40), 1, "words", "the wake word"),
        ((1, 1960), 4, "words", "(silence)"),
        ((1, 40, 3), 1, "numbers", ""),
    ],
)
def test_what_a_visitor_does(shape: Sequence[int], classes: int, kind: str, first: str) -> None:
    b = Builder("model")
    x = b.input("x", "FLOAT32", shape)
    flat = b.op("RESHAPE", [x, np.array([1, x.size], np.int32)], shape=(1, x.size))
    weights = np.zeros((classes, x.size), np.float32)
    task = task_of(b.graph([b.op("FULLY_CONNECTED", [flat, weights, None], shape=(1, classes))]))
    assert (task.kind, (*task.labels, "")[0]) == (kind, first)


def test_folders_and_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["demo", "digits_int8", "-o", str(tmp_path)]) == 2
    assert "mine.txt" in capsys.readouterr().err
    with pytest.raises(InvalidArgumentError, match="two models are called 'sums'"):
        write_site([sums(), sums()], tmp_path / "site")
