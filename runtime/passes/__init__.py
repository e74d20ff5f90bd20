"""Passes ``Graph -> Graph`` of the runtime: what a caller asks for before planning, and what planning does itself."""
