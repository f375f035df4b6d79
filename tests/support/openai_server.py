"""A scripted server that speaks OpenAI's chat completions, and refuses what strict providers refuse."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call as it goes over the wire: `arguments` is text, which need not be JSON."""

    name: str
    arguments: str = "{}"
    id: str | None = "call-1"


@dataclass(frozen=True)
class Turn:
    """One answer. `cut_after` closes the connection after that many chunks of a stream."""

    text: str = ""
    calls: Sequence[Call] = ()
    finish: str | None = None
    status: int = 200
    delay_seconds: float = 0.0
    cut_after: int | None = None


Script = Callable[[Body], Turn]


@dataclass
class OpenAIServer:
    """`requests` holds the bodies in order, `refused` why some of them were answered with 400."""

    script: Script
    url: str = ""
    requests: list[Body] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def turn(self, body: Body) -> Turn:
        with self._lock:
            self.requests.append(body)
            fault = _fault(body["messages"])
            if fault is not None:
                self.refused.append(fault)
                return Turn(fault, status=400)
            return self.script(body)

    def model(self, **options: Any) -> dict[str, Any]:
        """A record for `models:` of a configuration."""
        record = {"name": "wire", "use": "langchain_openai:ChatOpenAI", "model": "gpt-4o-mini"}
        return {**record, "api_key": "none", "base_url": f"{self.url}/v1", **options}


def in_order(*turns: Turn) -> Script:
    """Answer with one turn after the other, the last one again and again."""
    rest = list(turns)
    return lambda body: rest.pop(0) if len(rest) > 1 else rest[0]


@contextmanager
def openai_server(script: Script | Turn, *more: Turn) -> Iterator[OpenAIServer]:
    """A running server with a script, or with turns in order."""
    server = OpenAIServer(in_order(script, *more) if isinstance(script, Turn) else script)
    handler = type("Handler", (_Handler,), {"openai": server})
    http = _Http(("127.0.0.1", 0), handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        http.shutdown()
        http.server_close()
        thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: Any) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    openai: OpenAIServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        turn = self.openai.turn(body)
        self.openai.closing.wait(turn.delay_seconds)
        try:
            if turn.status != 200:
                self._send({"error": {"message": turn.text or "no", "type": "error"}}, turn.status)
            elif body.get("stream"):
                self._stream(turn, body)
            else:
                self._send(_completion(turn), 200)
        except ConnectionError:
            return  # the client went away

    def _send(self, value: Any, status: int) -> None:
        payload = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(payload)

    def _stream(self, turn: Turn, body: Body) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for number, chunk in enumerate(_chunks(turn)):
            if turn.cut_after == number:
                return
            self._write(f"data: {json.dumps(chunk)}\n\n")
        self._write("data: [DONE]\n\n")
        self._write("")

    def _write(self, text: str) -> None:
        payload = text.encode()
        self.wfile.write(f"{len(payload):x}\r\n".encode() + payload + b"\r\n")
        self.wfile.flush()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "gpt-4o-mini"}
_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _finish(turn: Turn) -> str:
    return turn.finish or ("tool_calls" if turn.calls else "stop")


def _completion(turn: Turn) -> Body:
    message: Body = {"role": "assistant", "content": turn.text or None}
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish(turn)}
    return {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE}


def _chunks(turn: Turn) -> Iterator[Body]:
    def chunk(delta: Body, finish: str | None = None) -> Body:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**_HEAD, "object": "chat.completion.chunk", "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for start in range(0, len(turn.text), 8):
        yield chunk({"content": turn.text[start : start + 8]})
    yield from (chunk({"tool_calls": [piece]}) for piece in _pieces(turn.calls))
    yield chunk({}, _finish(turn))
    yield {**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": _USAGE}


def _pieces(calls: Sequence[Call]) -> Iterator[Body]:
    """Heads first, then the arguments of all calls in pieces, one call's between the other's."""
    for index, call in enumerate(calls):
        head = {"index": index, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield head | ({} if call.id is None else {"id": call.id})
    for start in range(0, max((len(call.arguments) for call in calls), default=0), 7):
        for index, call in enumerate(calls):
            if piece := call.arguments[start : start + 7]:
                yield {"index": index, "function": {"arguments": piece}}


def _fault(messages: Sequence[Body]) -> str | None:
    """What a strict provider finds wrong with a conversation."""
    open_ids: list[str] = []
    for number, message in enumerate(messages):
        role = message["role"]
        if open_ids and role != "tool":
            return f"messages[{number}]: tool calls without results: {open_ids}"
        if role in ("system", "developer") and number > 0:
            return f"messages[{number}]: a system message stands in the middle"
        if role == "tool":
            if message.get("tool_call_id") not in open_ids:
                return f"messages[{number}]: a result without its call: {message.get('tool_call_id')}"
            open_ids.remove(message["tool_call_id"])
        elif role == "assistant":
            open_ids = [str(call.get("id") or "") for call in message.get("tool_calls") or ()]
            if not all(open_ids) or len(set(open_ids)) != len(open_ids):
                return f"messages[{number}]: missing or repeated ids of tool calls: {open_ids}"
            if not open_ids and not message.get("content"):
                return f"messages[{number}]: an assistant message says nothing"
    return f"tool calls without results: {open_ids}" if open_ids else None
