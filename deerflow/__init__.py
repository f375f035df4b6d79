"""DeerFlow: an agent host on LangGraph with extensions around every run."""
