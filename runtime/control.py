"""Operators that planning resolves: they call subgraphs or name variables, and have no kernel."""

from __future__ import annotations

#: TFLite's name -> what the plan makes of it.
CONTROL = {
    "IF": "a branch of the program",
    "WHILE": "a loop of the program",
    "CALL_ONCE": "what a reset does",
    "STABLEHLO_COMPOSITE": "the operators of its decomposition",
    "VAR_HANDLE": "a tensor of the state",
    "READ_VARIABLE": "a copy from the state, or its memory itself",
    "ASSIGN_VARIABLE": "a copy to the state, or its memory itself",
}
