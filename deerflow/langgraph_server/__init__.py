"""The lead agent under LangGraph's own server: `langgraph dev` in a folder with our `langgraph.json`."""
