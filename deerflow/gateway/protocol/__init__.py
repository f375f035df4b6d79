"""LangGraph's streaming protocol: commands, and the events of a thread's runs in channels."""
