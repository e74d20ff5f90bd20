"""The command ``twinfer``: a file per subcommand, and what several of them share."""
