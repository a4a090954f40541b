"""What people and programs read about a run: while it goes on, at its end, and from its files alone."""
