"""Checkpoints as the controller takes them, and restarts as it makes them."""
