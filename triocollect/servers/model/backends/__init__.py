"""Backends of somebody else's behind `--model-url`."""
