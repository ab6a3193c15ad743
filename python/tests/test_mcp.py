"""`stage2-launch mcp` with the client of the Python SDK, over the sample bundles."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import stage2

mcp = pytest.importorskip("mcp")

SAMPLES = Path(__file__).parents[2] / "docs/sample"
READING = {"list_runs", "ask", "query", "schema", "next", "diff"}


def session(use: Callable[[Any], Awaitable[None]], *options: str, root: Path = SAMPLES) -> None:
    """Start a server, and use it as a client does."""
    try:
        launcher = str(stage2.launcher_path())
    except stage2.InstallError:
        pytest.skip("no stage2-launch is on PATH")

    async def main() -> None:
        server = mcp.StdioServerParameters(
            command=launcher, args=["mcp", *options, str(root)], env=dict(os.environ)
        )
        async with mcp.Client(mcp.stdio_client(server)) as client:
            await use(client)

    asyncio.run(asyncio.wait_for(main(), 120))


async def call(client: Any, tool: str, **arguments: Any) -> str:
    """Return the text of an answer; an error is one."""
    answer = await client.call_tool(tool, arguments)
    return ("error: " if answer.is_error else "") + answer.content[0].text


def test_samples_are_listed_and_compared() -> None:
    async def use(client: Any) -> None:
        tools = await client.list_tools()
        assert {tool.name for tool in tools.tools} == READING
        runs = json.loads(await call(client, "list_runs"))
        assert "vllm_two_gpus" in [row[0] for row in runs["rows"]]
        text = await call(client, "diff", before="vllm_two_gpus", after=["vllm_two_gpus"])
        assert "decode" in text and not text.startswith("error"), text
        text = await call(
            client, "diff", before="vllm_sorting", after="vllm_server", expect=["run.kernels<-5%"]
        )
        assert "status 1" in text and not text.startswith("error"), text

    session(use)


def test_what_cannot_be_answered_is_an_error_that_says_what_would() -> None:
    async def use(client: Any) -> None:
        for arguments, said in [
            ({"run": "../..", "question": "summary"}, "list_runs"),
            ({"run": "/etc", "question": "summary"}, "list_runs"),
            ({"run": "regions", "question": 7}, "`question` has to be"),
        ]:
            text = await call(client, "ask", **arguments)
            assert text.startswith("error: ") and said in text, text
        with pytest.raises(mcp.MCPError, match="--allow run"):
            await call(client, "run", command=["true"])

    session(use)


def test_a_run_is_made_with_consent_and_can_be_compared(tmp_path: Path) -> None:
    async def use(client: Any) -> None:
        text = await call(client, "run", command=["sh", "-c", "echo done"])
        # It has no GPU work, which is the answer.
        assert "70 (there is no result)" in text and "done" in text, text
        runs = json.loads(await call(client, "list_runs"))
        assert len(runs["rows"]) == 1 and f"run: {runs['rows'][0][0]}" in text, (runs, text)
        text = await call(client, "ctl", target="999999999", verb="status")
        assert text.startswith("error: "), text

    session(use, "--allow", "run,ctl", root=tmp_path / "runs")


def test_calls_at_once_get_their_own_answers() -> None:
    async def use(client: Any) -> None:
        names = ["regions", "vllm_server", "server_window", "vllm_two_gpus"] * 3
        calls = [call(client, "diff", before=name, after=name) for name in names]
        for name, text in zip(names, await asyncio.gather(*calls)):
            assert name in text.splitlines()[0], text

    session(use)
