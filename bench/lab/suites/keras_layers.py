"""Every class of ``keras.layers`` in several configurations: Keras 3.15, as a functional model of one layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import layers as L
from keras import ops

Shape = tuple[int, ...]
Made = Callable[..., Any]

LINE, SERIES, IMAGE, VOLUME = (6,), (8, 6), (9, 10, 4), (5, 6, 7, 4)
FIRST = {1: (6, 8), 2: (4, 9, 10), 3: (4, 5, 6, 7)}
LAST = {1: SERIES, 2: IMAGE, 3: VOLUME}
PHOTO = (12, 10, 3)
CHANNELS_FIRST = {"data_format": "channels_first"}
SOUND = (1200,)

#: Name of a case, how its layer is called with tensors, and its inputs: shapes without the batch, or arrays with it.
Row = tuple[str, Made, tuple[Any, ...]]


def _rng(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def integers(high: int, *shape: int, low: int = 0) -> Any:
    return _rng().integers(low, high, (2, *shape)).astype(np.int32)


def bits(*shape: int) -> Any:
    """A mask with a true value in each row."""
    data = _rng().random((2, *shape)) < 0.6
    data[..., 0] = True
    return data


def photo(*shape: int) -> Any:
    return (_rng().random((2, *shape)) * 255).astype(np.float32)


def dense() -> Iterator[Row]:
    yield "Dense", L.Dense(5), (LINE,)
    yield "Dense relu no bias", L.Dense(5, activation="relu", use_bias=False), (LINE,)
    yield "Dense softmax of a series", L.Dense(5, activation="softmax"), (SERIES,)
    yield "Dense lora", L.Dense(5, lora_rank=2), (LINE,)
    yield "Dense of an image", L.Dense(3), (IMAGE,)
    for equation, shape, bias in (
        ("ab,bc->ac", 5, "c"), ("abc,cd->abd", (None, 5), "d"), ("abc,cde->abde", (None, 2, 3), "de"),
        ("abc,bd->adc", (5, 6), None), ("...x,xy->...y", 5, "y"),
    ):  # fmt: skip
        inputs = (LINE if equation.startswith("ab,") else SERIES,)
        yield f"EinsumDense {equation}", L.EinsumDense(equation, output_shape=shape, bias_axes=bias), inputs
    yield "EinsumDense relu", L.EinsumDense("abc,cd->abd", (None, 5), activation="relu", bias_axes="d"), (SERIES,)
    yield "Embedding", L.Embedding(9, 5), (integers(9, 4),)
    yield "Embedding of floats", L.Embedding(9, 5), (integers(9, 4).astype(np.float32),)
    yield "Embedding lora", L.Embedding(9, 5, lora_rank=2), (integers(9, 4),)
    pooled = lambda x: L.GlobalAveragePooling1D()(L.Embedding(9, 5, mask_zero=True)(x))  # noqa: E731
    yield "Embedding mask_zero and GlobalAveragePooling1D", pooled, (integers(3, 7),)
    yield "ReversibleEmbedding", L.ReversibleEmbedding(9, 5), (integers(9, 4),)
    both = L.ReversibleEmbedding(9, 5)
    yield "ReversibleEmbedding reversed", lambda x: both(both(x), reverse=True), (integers(9, 4),)
    untied = L.ReversibleEmbedding(9, 5, tie_weights=False, logit_soft_cap=2.0)
    yield "ReversibleEmbedding untied", lambda x: untied(untied(x), reverse=True), (integers(9, 4),)
    yield "Lambda", L.Lambda(lambda x: ops.exp(-x) + 1), (SERIES,)
    yield "Lambda with a reduction", L.Lambda(lambda x: ops.logsumexp(x, axis=-1)), (SERIES,)
    yield "Identity", L.Identity(), (SERIES,)
    yield "Pipeline", L.Pipeline([L.Rescaling(0.1), L.CenterCrop(6, 6)]), (IMAGE,)
    yield "ActivityRegularization", L.ActivityRegularization(0.1), (SERIES,)
    yield "Wrapper", L.SpectralNormalization(L.Dense(5)), (LINE,)
    yield "SpectralNormalization Conv2D", L.SpectralNormalization(L.Conv2D(3, 3)), (IMAGE,)


def activations() -> Iterator[Row]:
    for name in (
        "celu", "elu", "exponential", "gelu", "glu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_tanh",
        "leaky_relu", "linear", "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu",
        "soft_shrink", "softmax", "softplus", "softsign", "sparse_plus", "sparse_sigmoid", "sparsemax", "squareplus",
        "tanh", "tanh_shrink", "threshold",
    ):  # fmt: skip
        if name == "threshold":
            yield "Activation threshold", L.Activation(lambda x: keras.activations.threshold(x, 0.2, -1.0)), (SERIES,)
        else:
            yield f"Activation {name}", L.Activation(name), (SERIES,)
    yield "ELU", L.ELU(), (SERIES,)
    yield "ELU alpha", L.ELU(alpha=0.3), (SERIES,)
    yield "LeakyReLU", L.LeakyReLU(), (SERIES,)
    yield "LeakyReLU 0.01", L.LeakyReLU(negative_slope=0.01), (IMAGE,)
    yield "PReLU", L.PReLU(), (SERIES,)
    yield "PReLU shared", L.PReLU(shared_axes=[1, 2]), (IMAGE,)
    yield "ReLU", L.ReLU(), (SERIES,)
    yield "ReLU max_value", L.ReLU(max_value=1.5), (SERIES,)
    yield "ReLU slope and threshold", L.ReLU(negative_slope=0.2, threshold=0.5, max_value=2.0), (SERIES,)
    yield "Softmax", L.Softmax(), (SERIES,)
    yield "Softmax axis 1", L.Softmax(axis=1), (SERIES,)
    yield "Softmax axes", L.Softmax(axis=(1, 2)), (SERIES,)
    yield "Softmax mask", lambda x, m: L.Softmax()(x, mask=m), (SERIES, bits(*SERIES))


def convolutions() -> Iterator[Row]:
    for rank, last in LAST.items():
        image, first = (last,), (FIRST[rank],)
        for name, options in (
            ("plain", {}), ("same relu", {"padding": "same", "activation": "relu"}), ("strides", {"strides": 2}),
            ("strides same", {"strides": 2, "padding": "same"}), ("dilation", {"dilation_rate": 2, "padding": "same"}),
            ("groups", {"groups": 2, "filters": 4}), ("depthwise groups", {"groups": last[-1], "filters": 12}),
            ("no bias", {"use_bias": False, "kernel_size": 1}),
        ):  # fmt: skip
            yield (
                f"Conv{rank}D {name}",
                getattr(L, f"Conv{rank}D")(**{"filters": 5, "kernel_size": 3, **options}),
                image,
            )
        yield f"Conv{rank}D channels_first", getattr(L, f"Conv{rank}D")(5, 3, padding="same", **CHANNELS_FIRST), first
        for name, options in (
            ("plain", {}), ("same", {"padding": "same"}), ("strides same", {"strides": 2, "padding": "same"}),
            ("strides", {"strides": 3}), ("dilation", {"dilation_rate": 2}),
            ("output_padding", {"strides": 2, "output_padding": 1, "padding": "same", "use_bias": False}),
        ):  # fmt: skip
            yield f"Conv{rank}DTranspose {name}", getattr(L, f"Conv{rank}DTranspose")(5, 3, **options), image
        yield f"Conv{rank}DTranspose channels_first", getattr(L, f"Conv{rank}DTranspose")(5, 3, **CHANNELS_FIRST), first
        if rank == 3:
            continue
        for name, options in (
            ("plain", {}), ("multiplier same", {"depth_multiplier": 2, "padding": "same"}), ("strides", {"strides": 2}),
            ("dilation", {"dilation_rate": 2, "activation": "relu"}),
        ):  # fmt: skip
            yield f"DepthwiseConv{rank}D {name}", getattr(L, f"DepthwiseConv{rank}D")(3, **options), image
            yield f"SeparableConv{rank}D {name}", getattr(L, f"SeparableConv{rank}D")(5, 3, **options), image
        for name in (f"DepthwiseConv{rank}D", f"SeparableConv{rank}D"):
            sizes = (5, 3) if name.startswith("Sep") else (3,)
            yield f"{name} channels_first", getattr(L, name)(*sizes, **CHANNELS_FIRST), first
    yield "Conv1D causal", L.Conv1D(5, 3, padding="causal", dilation_rate=2), (SERIES,)
    yield "DepthwiseConv1D strides same", L.DepthwiseConv1D(3, strides=2, padding="same"), (SERIES,)
    yield "Conv2D kernel (3, 2)", L.Conv2D(5, (3, 2), strides=(2, 1), padding="same"), (IMAGE,)
    yield "Conv3D kernel (1, 2, 3)", L.Conv3D(5, (1, 2, 3), strides=(1, 2, 1), activation="relu"), (VOLUME,)


def pools() -> Iterator[Row]:
    for rank, last in LAST.items():
        for kind in ("Average", "Max"):
            pool = getattr(L, f"{kind}Pooling{rank}D")
            for name, options in (
                ("plain", {}), ("same", {"padding": "same"}), ("strides", {"strides": 1}),
                ("size 3 same", {"pool_size": 3, "strides": 1, "padding": "same"}),
            ):  # fmt: skip
                yield f"{kind}Pooling{rank}D {name}", pool(**{"pool_size": 2, **options}), (last,)
            yield f"{kind}Pooling{rank}D channels_first", pool(2, **CHANNELS_FIRST), (FIRST[rank],)
            everywhere = getattr(L, f"Global{kind}Pooling{rank}D")
            yield f"Global{kind}Pooling{rank}D", everywhere(), (last,)
            yield f"Global{kind}Pooling{rank}D keepdims", everywhere(keepdims=True), (last,)
            yield f"Global{kind}Pooling{rank}D channels_first", everywhere(**CHANNELS_FIRST), (FIRST[rank],)
            adaptive = getattr(L, f"Adaptive{kind}Pooling{rank}D")
            yield f"Adaptive{kind}Pooling{rank}D", adaptive(3), (last,)
            yield f"Adaptive{kind}Pooling{rank}D channels_first", adaptive(2, **CHANNELS_FIRST), (FIRST[rank],)
    masked = lambda x: L.GlobalAveragePooling1D()(L.Masking()(x))  # noqa: E731
    yield "GlobalAveragePooling1D masked", masked, (with_gaps(),)


def with_gaps() -> Any:
    """Sequences [2, 8, 6] that end early."""
    x = _rng().normal(0, 1, (2, *SERIES)).astype(np.float32)
    x[0, 5:] = 0
    x[1, 3:] = 0
    return x


def merges() -> Iterator[Row]:
    for name in ("Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract"):
        yield name, lambda *x, n=name: getattr(L, n)()(x), (SERIES, SERIES)
        yield f"{name} broadcast", lambda *x, n=name: getattr(L, n)()(x), (SERIES, (1, 6))
        if name != "Subtract":
            yield f"{name} of three", lambda *x, n=name: getattr(L, n)()(x), (LINE, LINE, LINE)
    yield "Add of ranks", lambda *x: L.Add()(x), (IMAGE, (10, 4))
    yield "Concatenate", lambda *x: L.Concatenate()(x), (SERIES, (8, 3))
    yield "Concatenate axis 1", lambda *x: L.Concatenate(axis=1)(x), (SERIES, (3, 6), SERIES)
    for name, axes, shapes in (
        ("vectors", 1, (LINE, LINE)), ("matrices", (2, 1), (SERIES, (6, 3))), ("matrices 1", 1, (SERIES, (8, 3))),
        ("matrix and vector", (2, 1), (SERIES, LINE)),
        ("images", (3, 3), ((3, 4, 5), (2, 3, 5))),
    ):  # fmt: skip
        yield f"Dot {name}", lambda *x, a=axes: L.Dot(a)(x), shapes
    yield "Dot normalize", lambda *x: L.Dot(1, normalize=True)(x), (LINE, LINE)
    yield "Dot normalize 2", lambda *x: L.Dot(2, normalize=True)(x), (SERIES, (3, 6))


def normalisations() -> Iterator[Row]:
    yield "BatchNormalization", L.BatchNormalization(), (IMAGE,)
    yield "BatchNormalization axis 1", L.BatchNormalization(axis=1), (IMAGE,)
    yield "BatchNormalization plain", L.BatchNormalization(center=False, scale=False), (LINE,)
    yield "BatchNormalization renorm", L.BatchNormalization(renorm=True), (SERIES,)
    masked = lambda x: L.BatchNormalization()(L.Masking()(x))  # noqa: E731
    yield "BatchNormalization masked", masked, (with_gaps(),)
    yield "LayerNormalization", L.LayerNormalization(), (SERIES,)
    yield "LayerNormalization axes", L.LayerNormalization(axis=(2, 3), epsilon=0.1), (IMAGE,)
    yield "LayerNormalization plain", L.LayerNormalization(center=False, scale=False), (LINE,)
    yield "GroupNormalization", L.GroupNormalization(groups=2), (IMAGE,)
    yield "GroupNormalization instance", L.GroupNormalization(groups=-1), (SERIES,)
    yield "GroupNormalization axis 1", L.GroupNormalization(groups=2, axis=1), (FIRST[2],)
    yield "RMSNormalization", L.RMSNormalization(), (SERIES,)
    yield "RMSNormalization axes", L.RMSNormalization(axis=(2, 3)), (IMAGE,)
    yield "UnitNormalization", L.UnitNormalization(), (SERIES,)
    yield "UnitNormalization axis 1", L.UnitNormalization(axis=1), (SERIES,)
    yield "UnitNormalization axes", L.UnitNormalization(axis=(1, 2)), (SERIES,)
    yield "Normalization", L.Normalization(mean=[1, 2, 3, 4], variance=[1, 2, 3, 4]), (IMAGE,)
    yield "Normalization one", L.Normalization(axis=None, mean=1.0, variance=4.0), (SERIES,)
    yield "Normalization invert", L.Normalization(mean=[1.0] * 6, variance=[4.0] * 6, invert=True), (LINE,)


def moves() -> Iterator[Row]:
    yield "Flatten", L.Flatten(), (IMAGE,)
    yield "Flatten channels_first", L.Flatten(**CHANNELS_FIRST), (FIRST[2],)
    yield "Flatten of one", L.Flatten(), ((),)
    yield "Permute", L.Permute((3, 1, 2)), (IMAGE,)
    yield "Permute series", L.Permute((2, 1)), (SERIES,)
    yield "RepeatVector", L.RepeatVector(3), (LINE,)
    yield "Reshape", L.Reshape((3, 16)), (SERIES,)
    yield "Reshape -1", L.Reshape((2, -1, 2)), (IMAGE,)
    ones = {1: 1, 2: ((1, 0), (2, 1)), 3: ((1, 0), (2, 1), (0, 2))}
    for rank, last in LAST.items():
        crop, pad, up = (getattr(L, f"{name}{rank}D") for name in ("Cropping", "ZeroPadding", "UpSampling"))
        yield f"Cropping{rank}D", crop(1), (last,)
        yield f"ZeroPadding{rank}D", pad(1), (last,)
        yield f"UpSampling{rank}D", up(2), (last,)
        yield f"Cropping{rank}D sides", crop(ones[rank] if rank > 1 else (2, 1)), (last,)
        yield f"ZeroPadding{rank}D sides", pad(ones[rank] if rank > 1 else (2, 1)), (last,)
        if rank > 1:
            yield f"Cropping{rank}D channels_first", crop(1, **CHANNELS_FIRST), (FIRST[rank],)
            yield f"UpSampling{rank}D channels_first", up(2, **CHANNELS_FIRST), (FIRST[rank],)
        yield f"ZeroPadding{rank}D channels_first", pad(1, **CHANNELS_FIRST), (FIRST[rank],)
    yield "UpSampling3D (1, 2, 3)", L.UpSampling3D((1, 2, 3)), (VOLUME,)
    for mode in ("bilinear", "bicubic"):
        yield f"UpSampling2D {mode}", L.UpSampling2D((2, 3), interpolation=mode), (IMAGE,)
        yield f"Resizing {mode}", L.Resizing(12, 7, interpolation=mode), (IMAGE,)
    yield "Resizing nearest", L.Resizing(13, 7, interpolation="nearest"), (IMAGE,)
    yield "Resizing smaller", L.Resizing(4, 5), (IMAGE,)
    yield "Resizing antialias", L.Resizing(4, 5, antialias=True), (IMAGE,)
    yield "Resizing crop", L.Resizing(6, 9, crop_to_aspect_ratio=True), (IMAGE,)
    yield "Resizing pad", L.Resizing(6, 9, pad_to_aspect_ratio=True, fill_value=1.0), (IMAGE,)
    yield "Resizing channels_first", L.Resizing(6, 9, **CHANNELS_FIRST), (FIRST[2],)
    yield "CenterCrop", L.CenterCrop(5, 6), (IMAGE,)
    yield "CenterCrop of small images", L.CenterCrop(14, 12), (IMAGE,)
    yield "CenterCrop channels_first", L.CenterCrop(5, 6, **CHANNELS_FIRST), (FIRST[2],)


def features() -> Iterator[Row]:
    yield "Rescaling", L.Rescaling(1 / 127.5, offset=-1.0), (photo(*PHOTO),)
    yield "Rescaling per channel", L.Rescaling([0.1, 0.2, 0.3], offset=[1.0, 2.0, 3.0]), (photo(*PHOTO),)
    yield "Rescaling of bytes", L.Rescaling(1 / 255), (photo(*PHOTO).astype(np.uint8),)
    for mode, tokens in (("multi_hot", integers(9, 4)), ("one_hot", integers(9)), ("one_hot", integers(9, 1)),
                         ("count", integers(9, 12))):  # fmt: skip
        name = f"CategoryEncoding {mode} {tokens.ndim - 1}"
        yield name, L.CategoryEncoding(num_tokens=9, output_mode=mode), (tokens,)
    count = lambda x, w: L.CategoryEncoding(num_tokens=9, output_mode="count")(x, count_weights=w)  # noqa: E731
    yield "CategoryEncoding count_weights", count, (integers(9, 5), _rng().random((2, 5)).astype(np.float32))
    for mode in ("int", "one_hot", "multi_hot", "count"):
        yield f"Discretization {mode}", L.Discretization([-0.5, 0.0, 1.0], output_mode=mode), (LINE,)
    for name, layer in (
        ("Hashing", lambda: L.Hashing(7)), ("HashedCrossing", lambda: lambda *x: L.HashedCrossing(7)(x)),
        ("IntegerLookup", lambda: L.IntegerLookup(vocabulary=[1, 5, 7, 8])),
        ("StringLookup", lambda: L.StringLookup(vocabulary=["a", "b"])),
        ("TextVectorization", lambda: L.TextVectorization(vocabulary=["a", "b"])),
    ):  # fmt: skip
        try:  # needs TensorFlow
            made = layer()
            made(keras.Input((1,), dtype="int64"))
            yield name, made, (integers(9, 1).astype(np.int64),)
        except Exception:
            continue
    for mode in ("log", "magnitude", "psd", "real", "imag", "angle", "stft"):
        yield f"STFTSpectrogram {mode}", L.STFTSpectrogram(mode=mode, frame_length=64, frame_step=32), ((1200, 1),)
    options: dict[str, Any] = {
        "frame_length": 60,
        "frame_step": 40,
        "fft_length": 64,
        "padding": "same",
        "periodic": True,
    }
    yield "STFTSpectrogram options", L.STFTSpectrogram("magnitude", window="hamming", **options), ((1200, 2),)
    yield "STFTSpectrogram expand_dims", L.STFTSpectrogram("magnitude", 64, 32, expand_dims=True), ((600, 1),)
    mel: dict[str, Any] = {"fft_length": 128, "sequence_stride": 64, "num_mel_bins": 12, "sampling_rate": 8000}
    yield "MelSpectrogram", L.MelSpectrogram(**mel), (SOUND,)
    yield "MelSpectrogram linear", L.MelSpectrogram(**mel, power_to_db=False, mag_exp=1.0), (SOUND,)
    yield "MelSpectrogram short windows", L.MelSpectrogram(**mel, sequence_length=100, window="hamming"), (SOUND,)


def augmentations() -> Iterator[Row]:
    half = {"factor": 0.5}
    plain: dict[str, dict[str, Any]] = {
        "AugMix": {}, "RandAugment": {}, "RandomBrightness": half, "RandomColorDegeneration": half,
        "RandomColorJitter": {"brightness_factor": 0.5, "hue_factor": 0.3}, "RandomContrast": half,
        "RandomElasticTransform": {}, "RandomErasing": {}, "RandomFlip": {}, "RandomGaussianBlur": {},
        "RandomGrayscale": {}, "RandomHue": half, "RandomInvert": {}, "RandomPerspective": {},
        "RandomPosterization": {"factor": 4}, "RandomRotation": half, "RandomSaturation": half,
        "RandomSharpness": half, "RandomShear": {"x_factor": 0.3}, "RandomTranslation":
        {"height_factor": 0.5, "width_factor": 0.5}, "RandomZoom": {"height_factor": 0.5},
    }  # fmt: skip
    for name, options in plain.items():
        yield name, getattr(L, name)(**options), (photo(*PHOTO),)
    yield "CutMix", L.CutMix(), (photo(*PHOTO),)
    yield "MixUp", L.MixUp(), (photo(*PHOTO),)
    yield "RandomCrop", L.RandomCrop(6, 7), (photo(*PHOTO),)
    yield "RandomCrop larger", L.RandomCrop(16, 20), (photo(*PHOTO),)
    yield "AutoContrast", L.AutoContrast(), (photo(*PHOTO),)
    adaptive = L.ContrastLimitedAdaptiveHistogramEqualization(tile_grid_size=(2, 2))
    yield "ContrastLimitedAdaptiveHistogramEqualization", adaptive, (photo(*PHOTO),)
    yield "Solarization", L.Solarization(threshold_factor=0.5), (photo(*PHOTO),)
    yield "Solarization addition", L.Solarization(0.3, 0.3), (photo(*PHOTO),)
    for name in ("AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise"):
        yield name, getattr(L, name)(0.3), (SERIES,)
    yield "Dropout noise_shape", L.Dropout(0.3, noise_shape=(None, 1, 6)), (SERIES,)
    for rank, last in LAST.items():
        yield f"SpatialDropout{rank}D", getattr(L, f"SpatialDropout{rank}D")(0.3), (last,)


def attentions() -> Iterator[Row]:
    query, value = (4, 6), (7, 6)
    for name in ("Attention", "AdditiveAttention"):
        kind = getattr(L, name)
        yield name, lambda *x, k=kind: k()(list(x)), (query, value)
        yield f"{name} key", lambda *x, k=kind: k()(list(x)), (query, (7, 6), value)
        yield f"{name} use_scale", lambda *x, k=kind: k(use_scale=k is L.Attention)(list(x)), (query, value)
        masks = lambda q, v, m, k=kind: k()([q, v], mask=[None, m])  # noqa: E731
        yield f"{name} mask", masks, (query, value, bits(7))
        yield (
            f"{name} both masks",
            lambda q, v, a, b, k=kind: k()([q, v], mask=[a, b]),
            (query, value, bits(4), bits(7)),
        )
        scores = lambda *x, k=kind: k()(list(x), return_attention_scores=True)  # noqa: E731
        yield f"{name} scores", scores, (query, value)
        yield f"{name} causal", lambda q, k=kind: k()([q, q], use_causal_mask=True), (query,)
    yield "Attention concat", lambda *x: L.Attention(score_mode="concat")(list(x)), (query, value)
    mha: Made = lambda **o: L.MultiHeadAttention(num_heads=2, key_dim=3, **o)  # noqa: E731
    yield "MultiHeadAttention", lambda q, v: mha()(q, v), (query, value)
    yield "MultiHeadAttention key", lambda q, v, k: mha(value_dim=5)(q, v, k), (query, value, (7, 5))
    yield "MultiHeadAttention causal", lambda q: mha()(q, q, use_causal_mask=True), (query,)
    yield "MultiHeadAttention mask", lambda q, v, m: mha()(q, v, attention_mask=m), (query, value, bits(4, 7))
    padding = lambda q, v, m: mha()(q, v, value_mask=m)  # noqa: E731
    yield "MultiHeadAttention value_mask", padding, (query, value, bits(7))
    yield "MultiHeadAttention scores", lambda q, v: mha()(q, v, return_attention_scores=True), (query, value)
    yield "MultiHeadAttention no bias", lambda q, v: mha(use_bias=False, output_shape=5)(q, v), (query, value)
    yield "MultiHeadAttention axes", lambda q: mha(attention_axes=(2,))(q, q), ((3, 4, 6),)
    yield "MultiHeadAttention gate", lambda q: mha(use_gate=True)(q, q), (query,)
    yield "MultiHeadAttention sliding_window", lambda q: mha(sliding_window=2)(q, q), (value,)
    embedded = lambda x: (lambda e: mha()(e, e))(L.Embedding(9, 6, mask_zero=True)(x))  # noqa: E731
    yield "MultiHeadAttention of masked steps", embedded, (integers(3, 7),)
    gqa: Made = lambda **o: L.GroupQueryAttention(head_dim=3, num_query_heads=4, num_key_value_heads=2, **o)  # noqa: E731
    yield "GroupQueryAttention", lambda q, v: gqa()(q, v), (query, value)
    yield "GroupQueryAttention causal", lambda q: gqa()(q, q, use_causal_mask=True), (query,)
    yield "GroupQueryAttention mask", lambda q, v, m: gqa()(q, v, attention_mask=m), (query, value, bits(4, 7))
    yield "GroupQueryAttention no bias", lambda q, v: gqa(use_bias=False)(q, v), (query, value)
    yield "GroupQueryAttention scores", lambda q, v: gqa()(q, v, return_attention_scores=True), (query, value)


def recurrent() -> Iterator[Row]:
    for name in ("SimpleRNN", "GRU", "LSTM"):
        kind, cell = getattr(L, name), getattr(L, f"{name}Cell")
        yield name, kind(5), (SERIES,)
        yield f"{name} sequences", kind(5, return_sequences=True), (SERIES,)
        yield f"{name} state", kind(5, return_state=True, return_sequences=True), (SERIES,)
        yield f"{name} go_backwards", kind(5, go_backwards=True, return_sequences=True), (SERIES,)
        yield f"{name} options", kind(5, activation="relu", use_bias=False, unroll=True), (SERIES,)
        yield f"{name} masked", lambda x, k=kind: k(5)(L.Masking()(x)), (with_gaps(),)
        sequences = lambda x, k=kind: k(5, return_sequences=True)(L.Masking()(x))  # noqa: E731
        yield f"{name} masked sequences", sequences, (with_gaps(),)
        yield f"RNN of {name}Cell", L.RNN(cell(5)), (SERIES,)
        yield f"RNN of stacked {name}Cell", L.RNN(L.StackedRNNCells([cell(5), cell(4)])), (SERIES,)
        yield f"Bidirectional {name}", L.Bidirectional(kind(5)), (SERIES,)
        yield f"Bidirectional {name} sum", L.Bidirectional(kind(5, return_sequences=True), merge_mode="sum"), (SERIES,)
        first = lambda x, h, k=kind: k(5)(x, initial_state=[h] * (2 if k is L.LSTM else 1))  # noqa: E731
        yield f"{name} initial_state", first, (SERIES, (5,))
    yield "GRU reset_after=False", L.GRU(5, reset_after=False), (SERIES,)
    for rank, last in LAST.items():
        steps = (3, *last[:-1], 2)
        lstm = getattr(L, f"ConvLSTM{rank}D")
        yield f"ConvLSTM{rank}D", lstm(2, 3, padding="same"), (steps,)
        yield f"ConvLSTM{rank}D sequences", lstm(2, 2, return_sequences=True, strides=2), (steps,)
    yield "TimeDistributed Dense", L.TimeDistributed(L.Dense(5)), (SERIES,)
    yield "TimeDistributed Conv2D", L.TimeDistributed(L.Conv2D(3, 3)), ((3, *IMAGE),)
    yield "TimeDistributed Flatten", L.TimeDistributed(L.Flatten()), (IMAGE,)
    yield "Masking", L.Masking(), (with_gaps(),)
    yield "Masking value", L.Masking(mask_value=-1.0), (SERIES,)


FAMILIES = (
    dense, activations, convolutions, pools, merges, normalisations, moves, features, augmentations, attentions,
    recurrent,
)  # fmt: skip


def rows() -> Iterator[Row]:
    for family in FAMILIES:
        yield from family()
