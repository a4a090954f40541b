"""Resources servers: verifiers and environments, one file each, and the app that serves one of them."""
