"""The command line: words and tables, no logic. One file a command group."""
