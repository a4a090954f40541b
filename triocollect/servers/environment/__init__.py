"""The environment server: one episode per /run, step by step."""
