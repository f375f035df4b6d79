"""What a tool gives back, made fit for the transcript: bounded, valid text, and never the end of the run."""

from deerflow.agents.tool_output.failures import ToolFailures
from deerflow.agents.tool_output.limit import ToolOutputLimit
from deerflow.agents.tool_output.limits import OutputLimits

__all__ = ["OutputLimits", "ToolFailures", "ToolOutputLimit"]
