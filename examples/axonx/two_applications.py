"""One application serves its Jobs over HTTP, another one calls them.

python examples/axonx/two_applications.py [NAME]
"""

import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

from axonx import Application

GREET = {
    "description": "Greet somebody.",
    "parameters": {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "additionalProperties": False,
    },
    "steps": [{"backend": "demo_step"}],
}


async def main(name):
    token = secrets.token_urlsafe()
    with tempfile.TemporaryDirectory() as directory:
        service = {"backend": "http", "port": 0, "token": token}
        async with Application(
            workspace_dir=Path(directory, "there"), jobs={"greet": GREET}, service=service
        ) as there:
            address = there.context.service.address
            target = {"address": address, "token": token}
            async with Application(workspace_dir=Path(directory, "here"), targets=[target]) as here:
                response = await here.run_job("greet", {"name": name}, target=address)
                print(response.answer)
                async for event in here.stream_job("greet", {"name": name}, target=address):
                    print(event.kind)
                try:
                    await here.run_job("greet", {"nmae": name}, target=address)
                except ValueError as error:
                    print(error)


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ["world"])))
