"""The errors that twinfer raises on purpose; everything else that escapes is a bug."""

from collections.abc import Mapping, Sequence

from twinfer.runtime.printable import printable


class _Printable(Exception):
    """Its text may hold names from models and is shown on terminals: it is escaped."""

    def __str__(self) -> str:
        return printable(super().__str__())


class TwinferError(_Printable):
    """Base of every error about the user's input: it names what is wrong, where, and what to do."""


class ModelError(TwinferError, ValueError):
    """A model (file or graph) is damaged or contradicts itself; the message gives the place and the reason."""


class UnsupportedOperatorError(TwinferError, NotImplementedError):
    """A valid model uses an operator, or a form of one, that twinfer has no kernel for.

    ``by_reason``: where a model of another framework cannot be converted, all operators with their reasons, and the
    nodes that have each.
    """

    by_reason: Mapping[tuple[str, str], Sequence[str]] = {}


class InvalidArgumentError(TwinferError, ValueError):
    """An argument of a public function does not fit: wrong shape, dtype, name, index or option."""


class NotReadyError(TwinferError, RuntimeError, ValueError):
    """A method of the interpreter that needs allocate_tensors() first, after construction or resize_tensor_input().

    LiteRT raises RuntimeError from invoke() and ValueError from get_tensor() and set_tensor().
    """


class ToolError(TwinferError, RuntimeError):
    """A compiler or other program that the job needs is missing or failed."""


class OperatorError(TwinferError, RuntimeError):
    """Files of a user's own operators are wrong, or their code raised; the message names the file and the reason."""


class GuardError(TwinferError, RuntimeError):
    """Guard mode saw a step use memory that is not its own; the message names operator, tensor, offset and bytes."""


class ModelWarning(_Printable, UserWarning):
    """A model is out of the ordinary but can be run; the message names the tensor and what was assumed."""


class ToolWarning(UserWarning):
    """A program or package that a part of the job needs is missing; the message says what was left out and why."""
