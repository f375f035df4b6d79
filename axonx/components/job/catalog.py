"""What is known of Jobs without calling them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, Field

from axonx.components.job.base import BaseJob
from axonx.components.job.response import JobResponse


class JobInfo(BaseModel):
    """One Job: the JSON Schemas of its arguments and of its response."""

    name: str
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]


class JobCatalog(BaseModel):
    """Jobs in the order of the configuration."""

    items: list[JobInfo] = Field(default_factory=list)
    total: int = 0

    @classmethod
    def of(cls, jobs: Iterable[BaseJob]) -> JobCatalog:
        output_schema = JobResponse.model_json_schema()
        items = [
            JobInfo(
                name=job.name,
                description=job.description,
                input_schema=job.parameters,
                output_schema=output_schema,
            )
            for job in jobs
        ]
        return cls(items=items, total=len(items))
