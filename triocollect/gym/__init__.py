"""NeMo Gym's wire and files. Pure but for `head` and `metrics`, which ask servers."""
