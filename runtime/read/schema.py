"""The .tflite file format as tables: every table, field, default, enum and union, for reader and writer alike.

The rows follow TensorFlow Lite's schema (version 3); tests compare them with the generated code of ai_edge_litert.
``schema_options.py`` has the rows of the operators' options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from struct import Struct
from types import MappingProxyType
from typing import Any, NamedTuple

from twinfer.runtime.read.schema_options import OPERATORS, OPTIONS, OPTIONS_2

IDENTIFIER = b"TFL3"
VERSION = 3


class Scalar(NamedTuple):
    """How a number is stored: its bytes, the letter by which ``struct`` knows it, and the range of integers."""

    bytewidth: int
    letter: str
    min_val: int = 0
    max_val: int = 0


#: Bits of a signed integer -> its letter.
_INTEGERS = {8: "b", 16: "h", 32: "i", 64: "q"}

#: Every scalar type.
SCALARS: Mapping[str, Scalar] = MappingProxyType(
    {
        "bool": Scalar(1, "?", 0, 1),
        "float32": Scalar(4, "f"),
        **{f"int{n}": Scalar(n // 8, of, -(1 << n - 1), (1 << n - 1) - 1) for n, of in _INTEGERS.items()},
        **{f"uint{n}": Scalar(n // 8, of.upper(), 0, (1 << n) - 1) for n, of in _INTEGERS.items()},
    }
)


class Enum(NamedTuple):
    """Named values 0, 1, 2, … stored as ``scalar``."""

    name: str
    scalar: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.names) if len(self.names) <= 24 else f"0 to {len(self.names) - 1}"


#: ``name scalar: members``; unions are stored as their type code.
_ENUMS = f"""
TensorType int8: FLOAT32 FLOAT16 INT32 UINT8 INT64 STRING BOOL INT16 COMPLEX64 INT8 FLOAT64 COMPLEX128 UINT64 RESOURCE
  VARIANT UINT32 UINT16 INT4 BFLOAT16 INT2 UINT4 FLOAT8_E4M3FN FLOAT8_E5M2
Padding int8: SAME VALID
ActivationFunctionType int8: NONE RELU RELU_N1_TO_1 RELU6 TANH SIGN_BIT
LSHProjectionType int8: UNKNOWN SPARSE DENSE
FullyConnectedOptionsWeightsFormat int8: DEFAULT SHUFFLED4x16INT8
LSTMKernelType int8: FULL BASIC
CombinerType int8: SUM MEAN SQRTN
MirrorPadMode int8: REFLECT SYMMETRIC
ReduceWindowFunction int32: UNSUPPORTED ADD MUL MINIMUM MAXIMUM ALL ANY
StablehloPrecisionConfig uint32: DEFAULT HIGH HIGHEST
StablehloComparisonDirection uint32: STABLEHLO_COMPARISON_DIRECTION_EQ STABLEHLO_COMPARISON_DIRECTION_NE
  STABLEHLO_COMPARISON_DIRECTION_GE STABLEHLO_COMPARISON_DIRECTION_GT STABLEHLO_COMPARISON_DIRECTION_LE
  STABLEHLO_COMPARISON_DIRECTION_LT
StablehloComparisonType uint32: STABLEHLO_COMPARISON_TYPE_NOTYPE STABLEHLO_COMPARISON_TYPE_FLOAT
  STABLEHLO_COMPARISON_TYPE_FLOAT_TOTAL_ORDER STABLEHLO_COMPARISON_TYPE_SIGNED STABLEHLO_COMPARISON_TYPE_UNSIGNED
RngAlgorithm int8: DEFAULT PHILOX THREEFRY
CustomOptionsFormat int8: FLEXBUFFERS
DimensionType int8: DENSE SPARSE_CSR
BuiltinOperator int32: {" ".join(OPERATORS.split())}
"""

#: As in schema_options.py. A union field takes two slots, ``name:union(Union)``: its type code, then its table.
_TABLES = """
Int32Vector | | values:[int32]
Uint16Vector | | values:[uint16]
Uint8Vector | | values:[uint8]
CustomQuantization | | custom:[uint8]
BlockwiseQuantization | | scales:int32 zero_points:int32 block_size:int32 block_shape:[int32]
MultiAxisQuantization | | scales:int32 zero_points:int32 block_size:int32 quantized_dimensions:[int32]
QuantizationParameters | | min:[float32] max:[float32] scale:[float32] zero_point:[int64]
  details:union(QuantizationDetails) quantized_dimension:int32
DimensionMetadata | | format:DimensionType dense_size:int32 array_segments:union(SparseIndexVector)
  array_indices:union(SparseIndexVector)
SparsityParameters | | traversal_order:[int32] block_map:[int32] dim_metadata:[DimensionMetadata]
VariantSubType | | shape:[int32] type:TensorType has_rank:bool
Tensor | | shape:[int32] type:TensorType buffer:uint32 name:string quantization:QuantizationParameters is_variable:bool
  sparsity:SparsityParameters shape_signature:[int32] has_rank:bool variant_tensors:[VariantSubType]
  external_buffer:uint32
OperatorCode | | deprecated_builtin_code:int8 custom_code:string version:int32=1 builtin_code:int32
Operator | | opcode_index:uint32 inputs:[int32] outputs:[int32] builtin_options:union(BuiltinOptions)
  custom_options:[uint8] custom_options_format:CustomOptionsFormat mutating_variable_inputs:[bool] intermediates:[int32]
  large_custom_options_offset:uint64 large_custom_options_size:uint64 builtin_options_2:union(BuiltinOptions2)
  debug_metadata_index:int32=-1
SubGraph | | tensors:[Tensor] inputs:[int32] outputs:[int32] operators:[Operator] name:string
  debug_metadata_index:int32=-1
Buffer | | data:[uint8] offset:uint64 size:uint64
ExternalBufferGroup | | name:string
ExternalBuffer | | id:uint32 group:uint32 offset:uint64 length:uint64 packing:string
Metadata | | name:string buffer:uint32
TensorMap | | name:string tensor_index:uint32
SignatureDef | | inputs:[TensorMap] outputs:[TensorMap] signature_key:string _ subgraph_index:uint32
Model | | version:uint32 operator_codes:[OperatorCode] subgraphs:[SubGraph] description:string buffers:[Buffer]
  metadata_buffer:[int32] metadata:[Metadata] signature_defs:[SignatureDef]
  external_buffer_groups:[ExternalBufferGroup] external_buffers:[ExternalBuffer]
"""


class Field:
    """One field of a table: ``kind`` names a scalar, enum, table or union, or is "string".

    ``enum`` is what its values name, None unless they name something. ``scalar`` says how the value, or one element, is
    stored; None for strings, tables and unions.
    """

    def __init__(self, name: str, slot: int, kind: str, vector: bool, default: Any) -> None:
        self.name, self.slot, self.kind, self.vector, self.default = name, slot, kind, vector, default
        self.enum = ENUMS.get(kind)
        self.scalar = SCALARS.get(self.enum.scalar if self.enum else kind)
        self.one = Struct(f"<{self.scalar.letter}") if self.scalar else None


class Table:
    """One table of the format and, if it holds options, the operators that use it.

    ``absent`` stands for the fields that a file leaves out; bytes that are not there are no empty ones.
    """

    def __init__(self, name: str, operators: tuple[str, ...], fields: tuple[Field, ...]) -> None:
        self.name, self.operators, self.fields = name, operators, fields
        none = [field.name for field in fields if field.vector and field.kind == "uint8"]
        self.absent: dict[str, Any] = {**self.defaults, **dict.fromkeys(none)}

    @property
    def defaults(self) -> dict[str, Any]:
        return {field.name: field.default for field in self.fields}


class _Tables(Mapping[str, Table]):
    """Tables by the names of rows. A row is parsed when its table is first asked for: a model has few of them."""

    def __init__(self, rows: Mapping[str, str]) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> Table:
        return _table(self._rows[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _rows(text: str) -> Iterator[str]:
    """The rows of a block of text; an indented line continues the one before."""
    return iter(text.strip().replace("\n  ", " ").splitlines())


def _enum(row: str) -> Enum:
    head, members = row.split(":")
    name, scalar = head.split()
    return Enum(name, scalar, tuple(members.split()))


@cache
def _table(row: str) -> Table:
    name, operators, words = row.split("|")
    fields, slot = [], 0
    for word in words.split():
        if word != "_":
            fields.append(_field(word, slot))
        slot += 2 if ":union(" in word else 1
    return Table(name.strip(), tuple(operators.split()), tuple(fields))


def _field(word: str, slot: int) -> Field:
    name, _, type = word.partition(":")
    type, _, default = type.partition("=")
    vector = type.startswith("[")
    kind = type.strip("[]").removeprefix("union(").removesuffix(")")
    return Field(name, slot, kind, vector, _default(kind, vector, default))


def _default(kind: str, vector: bool, text: str) -> Any:
    if vector:
        return b"" if kind == "uint8" else ()
    if kind in ENUMS:
        return text or ENUMS[kind].names[0]
    if kind not in SCALARS:
        return "" if kind == "string" else None
    if kind == "bool":
        return text == "true"
    return float(text or 0) if kind == "float32" else int(text or 0)


def _union(text: str) -> tuple[str, ...]:
    return "NONE", *(row.split()[0] for row in _rows(text))


ENUMS: Mapping[str, Enum] = MappingProxyType({enum.name: enum for enum in map(_enum, _rows(_ENUMS))})
_ROWS = {row.partition(" ")[0]: row for text in (_TABLES, OPTIONS, OPTIONS_2) for row in _rows(text)}
TABLES: Mapping[str, Table] = _Tables(_ROWS)
#: Union -> its tables; the position is the type code.
UNIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "BuiltinOptions": _union(OPTIONS),
        "BuiltinOptions2": _union(OPTIONS_2),
        "QuantizationDetails": ("NONE", "CustomQuantization", "BlockwiseQuantization", "MultiAxisQuantization"),
        "SparseIndexVector": ("NONE", "Int32Vector", "Uint16Vector", "Uint8Vector"),
    }
)
#: Operator -> its options table; operators without options are absent.
OPERATOR_OPTIONS: Mapping[str, Table] = _Tables(
    {operator: row for row in _ROWS.values() for operator in row.split("|")[1].split()}
)


def default_options(op: str) -> dict[str, Any]:
    """The options of an operator, every field with the format's default; empty for operators without options."""
    table = OPERATOR_OPTIONS.get(op)
    return table.defaults if table else {}
