"""Python values as C text: numbers to the bit, arrays, names and comments. Works in C11 and in C++20."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.errors import InvalidArgumentError

WIDTH = 118

#: numpy kind and size -> C element type. bool and float16 are kept as their bits, complex numbers as their parts.
_C_TYPES = {
    "i1": "int8_t", "i2": "int16_t", "i4": "int32_t", "i8": "int64_t", "u1": "uint8_t", "u2": "uint16_t",
    "u4": "uint32_t", "u8": "uint64_t", "b1": "uint8_t", "f2": "uint16_t", "f4": "float", "f8": "double",
    "c8": "float", "c16": "double",
}  # fmt: skip
_PARTS = {"b1": "u1", "f2": "u2", "c8": "f4", "c16": "f8"}

_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """auto break case char const continue default do double else enum extern float for goto if inline int long
        main register restrict return short signed sizeof static struct switch tw typedef union unsigned void volatile
        while""",
    )
)

#: Targets that CMake and make define.
_TARGETS = frozenset(
    re.findall(
        r"\w+",
        """all clean depend edit_cache help install list_install_components package package_source preinstall
        rebuild_cache test""",
    )
)

#: Names of files that a model's must not have: headers of C, of C libraries (glibc, newlib) and of compilers, which it
#: would hide where its folder is searched first, and files of programs.
_FILES = frozenset(
    re.findall(
        r"\w+",
        """assert complex ctype errno fenv inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
        stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
        aio aliases alloca ar argp argz byteswap cpio devctl dirent dlfcn elf endian envlock envz err error execinfo
        fastmath fcntl features fmtmsg fnmatch fstab fts ftw gconv getopt glob grp gshadow iconv ieeefp ifaddrs langinfo
        lastlog libgen libintl link malloc mcheck memory mntent monetary mqueue ndbm netdb newlib nl_types nss obstack
        paths picolibc poll printf proc_service pthread pty pwd re_comp reent regdef regex regexp resolv sched search
        semaphore sgtty shadow spawn stab stdio_ext strings stropts syscall sysexits syslimits syslog tar termio
        termios thread_db ttyent ucontext ulimit unctrl unistd utime utmp utmpx values wait wordexp
        arm_acle arm_cmse arm_fp16 arm_mve arm_neon cpuid float immintrin mm_malloc unwind varargs x86intrin
        constants harness library semihost start""",
    )
)


def c_type(dtype: np.dtype[Any]) -> str:
    """C type of one element of an array of ``dtype``."""
    return _C_TYPES[dtype.str[1:]]


def elements(array: NDArray[Any]) -> list[str]:
    """The array's elements in memory order as literals of ``c_type(array.dtype)``; every bit is kept."""
    flat = np.ascontiguousarray(array).reshape(-1)
    code = flat.dtype.str[1:]
    if code in _PARTS:
        flat = flat.view(f"{flat.dtype.byteorder.replace('|', '')}{_PARTS[code]}")
    if flat.dtype.kind == "f":
        return _floats(flat)
    if flat.dtype.kind == "u":
        return [f"{v}u" for v in flat.tolist()] if flat.itemsize > 2 else [str(v) for v in flat.tolist()]
    smallest = int(np.iinfo(flat.dtype).min)
    if flat.itemsize < 4:
        return [str(v) for v in flat.tolist()]
    return [f"INT{8 * flat.itemsize}_MIN" if v == smallest else str(v) for v in flat.tolist()]


def _floats(flat: NDArray[Any]) -> list[str]:
    finite = bool(np.isfinite(flat).all())
    form, suffix = ("%.9g", "f") if flat.itemsize == 4 else ("%.17g", "")
    texts = [form % v for v in flat.tolist()]
    texts = [f"{t}{suffix}" if "." in t or "e" in t else f"{t}.0{suffix}" for t in texts]
    if not finite:
        for i in np.flatnonzero(~np.isfinite(flat)).tolist():
            texts[i] = _not_finite(flat[i : i + 1], suffix)
    return texts


def _not_finite(one: NDArray[Any], suffix: str) -> str:
    """Infinity or NaN with its sign, payload and signalling bit, as a constant that gcc and clang both take."""
    bits = int(one.view(f"u{one.itemsize}")[0])
    fraction = 23 if one.itemsize == 4 else 52
    sign = "-" if bits >> (8 * one.itemsize - 1) else ""
    payload = bits & ((1 << fraction) - 1)
    if payload == 0:
        return f"{sign}__builtin_inf{suffix}()"
    quiet = 1 << (fraction - 1)
    kind = "nan" if payload & quiet else "nans"
    return f'{sign}__builtin_{kind}{suffix}("0x{payload & (quiet - 1):x}")'


def scalar(value: float, type: str) -> str:
    """One number as a literal of C type ``int32_t`` or ``float`` (rounded to it as C rounds)."""
    if type == "float":
        return elements(np.array([value], np.float32))[0]
    return elements(np.array([int(value)], type.removesuffix("_t")))[0]


def wrapped(items: Sequence[str], indent: str = "    ") -> str:
    """``items`` separated by commas, in lines that are indented and at most 118 wide."""
    lines: list[str] = []
    line: list[str] = []
    room = WIDTH - len(indent)
    for item in items:
        if line and room < len(item) + 2:
            lines.append(indent + ", ".join(line))
            line, room = [], WIDTH - len(indent)
        line.append(item)
        room -= len(item) + 2
    return ",\n".join([*lines, indent + ", ".join(line)])


def comment(text: str, limit: int = 100) -> str:
    """Foreign text, such as a tensor's name, for a C comment: plain ASCII, one line, no comment marks."""
    plain = text.encode("unicode_escape").decode("ascii")
    if len(plain) > limit:
        plain = plain[: limit - 3] + "..."
    return plain.replace("*/", "*\\/").replace("/*", "/\\*").replace("??", "?\\?")


def in_recipe(words: Sequence[str]) -> str:
    """A command line as make hands it to the shell."""
    return _line(words).replace("$", "$$")


def in_makefile(words: Sequence[str]) -> str:
    """A command line as the value of a variable of make."""
    return in_recipe(words).replace("#", "\\#")


def in_cmake(words: Sequence[str]) -> str:
    """A command line between the quotes of a string of CMake."""
    return re.sub(r'(["$\\])', r"\\\1", _line(words))


def _line(words: Sequence[str]) -> str:
    """Words on one line, quoted for the shell."""
    return shlex.join(" ".join(word.splitlines()) for word in words)


def block_comment(lines: Sequence[str]) -> str:
    """A C comment of several lines."""
    return "/* " + "\n * ".join(lines) + " */"


def identifier(text: str) -> str:
    """The nearest C identifier to a file's or operator's name, in lower case."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "model"
    return f"model_{name}" if name[0].isdigit() or _taken(name) else name


def _taken(name: str) -> bool:
    lower = name.lower()  # as some file systems take names
    return lower in _KEYWORDS | _TARGETS | _FILES or lower.startswith("tw_")


def check_name(name: str) -> str:
    """``name`` if it can begin the name of every function and file of a model, else InvalidArgumentError."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name) or _taken(name):
        raise InvalidArgumentError(f"{name!r} cannot name C functions and files; try {identifier(name)!r}")
    return name


def grouped(number: int) -> str:
    """12345 -> 12,345, for comments."""
    return f"{number:,}"


def braced(lines: Iterable[str], head: str = "") -> list[str]:
    """Lines as a block, behind its ``head``."""
    return [f"{head} {{".lstrip(), *(f"    {line}" for line in lines), "}"]
