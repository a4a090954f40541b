"""What is said between collector and participants, and what lies on disk. Pure: no I/O, no clock."""
