"""A component that depends on another one, in an Application that is configured by a YAML file.

python examples/axonx/report_cache.py [TEXT]
"""

import asyncio
import logging
import sys
import tempfile
from pathlib import Path

import yaml

from axonx import Application, BaseComponent, BaseStep, provider
from axonx.components.job import ProgressEvent


@provider("prefix_formatter")
class PrefixFormatter(BaseComponent):
    component_type = "formatter"

    def __init__(self, prefix="AxonX: ", **kwargs):
        super().__init__(**kwargs)
        self.prefix = prefix

    def format(self, text):
        return self.prefix + text


@provider("report_cache")
class ReportCache(BaseComponent):
    component_type = "report_cache"

    def __init__(self, formatter="default", **kwargs):
        super().__init__(**kwargs)
        self.depend("formatter", formatter, PrefixFormatter)

    async def _start(self):
        self.logger.info(self.formatter.format("cache ready"))


@provider("format_text")
class FormatTextStep(BaseStep):
    async def execute(self):
        formatter = self.get_component("formatter", "default")
        self.response.answer = formatter.format(self.context["text"])
        self.response.metadata["mode"] = self.context["internal_mode"]
        await self.emit(ProgressEvent(name="formatted", percentage=100))


async def main(text):
    config = yaml.safe_load(Path(__file__).with_name("application.yaml").read_text("utf-8"))
    providers = (PrefixFormatter, ReportCache, FormatTextStep)
    with tempfile.TemporaryDirectory() as directory:
        async with Application(providers=providers, workspace_dir=directory, **config) as app:
            async for event in app.stream_job("format", {"text": text}):
                print(event.kind, event.model_dump(mode="json", exclude_defaults=True))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    asyncio.run(main(*(sys.argv[1:] or ["hello"])))
