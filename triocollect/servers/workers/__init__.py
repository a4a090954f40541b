"""Several worker processes behind one port.

The coordinator (`keeping`) starts them, keeps them going and answers for all of them under `/checkpoint/v1`.
Every worker accepts on the one port; a request that belongs to another one (`whose`, `routing`) is passed on
to it over a Unix socket (`passing`), and a control call to the coordinator.
"""
