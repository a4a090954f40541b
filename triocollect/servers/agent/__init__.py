"""The agent server: a loop of policy calls and tool calls, one session per episode."""
