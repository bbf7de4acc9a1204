"""The command line, built with Typer: one thin function per command, which imports what it needs when called."""
