"""Commands of LangGraph's streaming protocol, and what of their parameters this host can do."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator

from deerflow.gateway.bodies.runs import RunBody
from deerflow.gateway.errors import problem

Object = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)
Namespace = Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=100)]
InterruptId = Annotated[str, Field(max_length=1000)]

# Everything that the protocol's channels are made of; as clients filter, a run streams all of it.
PROTOCOL_MODES = ("values", "updates", "content-blocks", "tools", "custom", "tasks", "checkpoints")


class CommandError(Exception):
    """A command that cannot be carried out: `code` is one of the protocol's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ProtocolCommandBody(BaseModel):
    """One command. Which parameters there are depends on the method."""

    model_config = ConfigDict(extra="ignore")

    id: Annotated[StrictInt, Field(ge=0)]
    method: Annotated[str, Field(max_length=100)]
    params: Object | None = None


class _RunStart(BaseModel):
    """A new run on the thread, or what an interrupted one waits for."""

    model_config = ConfigDict(extra="ignore")

    assistant_id: str
    input: Any = None
    config: Object | None = None
    context: Object | None = None
    metadata: Object | None = None
    multitask_strategy: str | None = None
    langsmith_tracer: Object | None = None

    @model_validator(mode="before")
    @classmethod
    def _named_once(cls, params: Any) -> Any:
        # Clients send the name that older servers know besides the protocol's.
        if isinstance(params, dict) and params.get("multitask_strategy") is None:
            return {**params, "multitask_strategy": params.get("multitaskStrategy")}
        return params


class _Response(BaseModel):
    """The answer to one interrupt."""

    model_config = ConfigDict(extra="ignore")

    interrupt_id: InterruptId
    namespace: Namespace | None = None
    response: Any = None


class InputRespond(BaseModel):
    """The answers to one or several interrupts, with a change of the state where that is wanted."""

    model_config = ConfigDict(extra="ignore")

    responses: Annotated[list[_Response], Field(min_length=1, max_length=1000)]
    update: Object | list[Any] | None = None
    goto: Any = None
    config: Object | None = None
    context: Object | None = None
    metadata: Object | None = None

    @model_validator(mode="before")
    @classmethod
    def _as_list(cls, params: Any) -> Any:
        if isinstance(params, dict) and params.get("responses") is None:
            return {**params, "responses": [params]}
        return params

    @property
    def answers(self) -> Object:
        """What goes to which interrupt."""
        return {response.interrupt_id: response.response for response in self.responses}

    def run_body(self, assistant_id: str) -> RunBody:
        """The run that goes on with the answers."""
        command = {"resume": self.answers, "update": self.update, "goto": self.goto}
        options = {"config": self.config, "context": self.context, "metadata": self.metadata}
        return run_body(assistant_id=assistant_id, command=command, **options)


class GetTree(BaseModel):
    """Of which run; the newest unless said otherwise."""

    model_config = ConfigDict(extra="ignore")

    run_id: Annotated[str, Field(max_length=100)] | None = None


def start_body(params: Object, *, is_answer: bool) -> RunBody:
    """The run that `run.start` asks for; `CommandError` where it cannot be.

    With `is_answer` the input is what an interrupted run waits for.
    """
    given = parsed(_RunStart, params).model_dump(exclude_none=True)
    if is_answer:
        given["command"] = {"resume": given.pop("input")}
    return run_body(**given)


def run_body(**fields: Any) -> RunBody:
    """A run on a thread that is made where there is none; `CommandError` where it cannot be."""
    configurable = (fields.get("config") or {}).get("configurable")
    checkpoint_id = configurable.get("checkpoint_id") if isinstance(configurable, dict) else None
    return parsed(RunBody, {**fields, "checkpoint_id": checkpoint_id, "if_not_exists": "create"})


def parsed(model: type[Model], params: Object) -> Model:
    """The parameters in their form; `CommandError` where they are not."""
    try:
        return model.model_validate(params)
    except ValidationError as error:
        raise CommandError("invalid_argument", "; ".join(map(problem, error.errors()))) from None
