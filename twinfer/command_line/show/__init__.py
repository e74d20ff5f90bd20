"""What the subcommands show: tables, texts and pages, made of what the library returns."""
