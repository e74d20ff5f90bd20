"""What else LiteRT's ``interpreter`` module has: resolvers of operators, and delegates, which twinfer has none of."""

from __future__ import annotations

import enum
import os
from typing import Any, NoReturn

from twinfer.runtime.errors import InvalidArgumentError

_DELEGATES = "delegates are not supported: twinfer runs its own kernels, without a delegate the model runs as well"


@enum.unique
class OpResolverType(enum.Enum):
    """Which kernels LiteRT takes. twinfer has one set, with the bits of the reference kernels; all choices are that."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


def load_delegate(library: str | os.PathLike[str], options: dict[str, Any] | None = None) -> NoReturn:
    """Raises InvalidArgumentError, a ValueError, which programs catch to go on without the delegate."""
    raise InvalidArgumentError(f"cannot load a delegate from {library}: {_DELEGATES}")


def check_delegates(delegates: object) -> None:
    """InvalidArgumentError unless there are none."""
    if delegates is not None and not (isinstance(delegates, list | tuple) and not delegates):
        raise InvalidArgumentError(_DELEGATES)


def check_resolver(resolver: object) -> None:
    """InvalidArgumentError for what is no OpResolverType, neither twinfer's nor LiteRT's."""
    known = isinstance(resolver, enum.Enum) and resolver.name in OpResolverType.__members__
    if resolver is not None and not known:
        raise InvalidArgumentError(f"no op resolver type: {resolver!r}; give one of OpResolverType")
