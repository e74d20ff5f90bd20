"""The tools that build programs for a machine and read them."""

from __future__ import annotations

from dataclasses import dataclass

from twinfer.runtime.tools import compiler_version, need_tool


@dataclass(frozen=True)
class Toolchain:
    """A gcc and its binutils, by the names of their programs; ``packages`` are the Debian packages that have them."""

    compiler: str
    binutils: str  # what the binutils' names begin with: "" for this computer's
    packages: tuple[str, ...] = ()

    def need(self) -> str:
        """The compiler; ToolError, with the packages that have it, if it is not installed."""
        return need_tool(self.compiler, " ".join(self.packages))

    def tool(self, name: str) -> str:
        """The name of a program of these binutils: ``objdump``, ``nm``, ``ar``."""
        return f"{self.binutils}{name}"

    @property
    def version(self) -> str:
        """What the compiler prints for --version; ToolError if it cannot be run."""
        return compiler_version((self.compiler,))
