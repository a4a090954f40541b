"""What model servers keep on disk of the calls that they serve."""
