"""Settings of a deployment that would make Gym write other records than we do. Pure."""

from triocollect.gym.config_tree import GymConfig


def fields_unsupported(config: GymConfig) -> list[str]:
    """Why this config cannot be collected for, one line each; empty when it can.

    A `model_call_capture_dir` alone switches nothing on (Gym 0.7.0, ModelCallCaptureConfig).
    """
    problems = []
    if config.settings.get("observability_enabled"):
        captured = config.settings.get("model_call_capture_dir")
        into = " with model_call_capture_dir" if captured else ""
        problems.append(
            f"observability_enabled{into} is on in the head's config: triocollect does not merge captured "
            "model calls into records; switch it off, or collect with Gym"
        )
    capture = config.settings.get("token_id_capture")
    if isinstance(capture, dict) and capture.get("enabled"):
        problems.append(
            "token_id_capture is on in the head's config: triocollect does not write captured token ids into "
            "records; switch it off, or collect with Gym"
        )
    return problems
