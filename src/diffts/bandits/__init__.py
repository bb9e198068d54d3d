"""Bandits: actions, policies, the compiled simulator, and the agent for people."""
