"""The policy model server: in front of an inference worker or of any OpenAI-compatible URL."""
