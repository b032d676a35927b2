"""The command line: `main` reads the arguments, each subcommand has a module of its own."""
