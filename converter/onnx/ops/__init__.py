"""The importers: every module ends with ``IMPORTERS = {"<Operator>": function, …}``; ``node.importers`` finds them."""
