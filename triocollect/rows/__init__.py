"""From an input file to keyed rows."""
