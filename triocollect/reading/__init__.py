"""Reading a run's folder or a checkpoint directory without any server."""
