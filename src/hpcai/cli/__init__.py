"""The command line, built with Typer: one thin function per command, which imports its needs when called."""
