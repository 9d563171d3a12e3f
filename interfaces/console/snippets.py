"""The requests behind a page, as a person would type them: with curl, in Python and in TypeScript."""

from __future__ import annotations

import json
import pprint
import re
import shlex

from interfaces.console.wire import WireRequest

WIDTH = 100
_UNSEEN = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def snippets_of(asked: WireRequest, base_url: str, *, needs_key: bool) -> list[tuple[str, str]]:
    """Return a request in each language. `base_url` has no slash at its end; the key is read from `RAG_API_KEY`."""
    languages = (("curl", _curl), ("Python", _python), ("TypeScript", _typescript))
    return [(title, spelled(asked, base_url, needs_key)) for title, spelled in languages]


def _curl(asked: WireRequest, base_url: str, needs_key: bool) -> str:
    words = ["curl -s"]
    if asked.method != ("GET" if asked.body is None else "POST"):
        words.append(f"-X {asked.method}")
    words.append(shlex.quote(base_url + asked.target))
    if needs_key:
        words.append('-H "Authorization: Bearer $RAG_API_KEY"')
    if asked.body is not None:
        words.append(f"--json {shlex.quote(_json(asked.body))}")
    return " \\\n  ".join(words) if len(" ".join(words)) > WIDTH else " ".join(words)


def _python(asked: WireRequest, base_url: str, needs_key: bool) -> str:
    arguments = [repr(asked.method), repr(base_url + asked.path)]
    if asked.query:
        arguments.append(f"params={_literal(dict(asked.query))}")
    if asked.body is not None:
        arguments.append(f"json={_literal(asked.body)}")
    if needs_key:
        arguments.append("headers={'Authorization': f'Bearer {os.environ[\"RAG_API_KEY\"]}'}")
    listed = "".join(f"    {each},\n" for each in arguments)
    imports = "import os\n\nimport requests\n" if needs_key else "import requests\n"
    return f"{imports}\nanswer = requests.request(\n{listed})\nprint(answer.json())"


def _typescript(asked: WireRequest, base_url: str, needs_key: bool) -> str:
    headers = {} if asked.body is None else {'"Content-Type"': '"application/json"'}
    if needs_key:
        headers["Authorization"] = "`Bearer ${process.env.RAG_API_KEY}`"
    options = [f"method: {json.dumps(asked.method)}"]
    if headers:
        options.append(f"headers: {{ {', '.join(f'{name}: {value}' for name, value in headers.items())} }}")
    if asked.body is not None:
        said = _json(asked.body, indent=2).replace("\n", "\n  ")
        options.append(f"body: JSON.stringify({said})")
    listed = "".join(f"  {each},\n" for each in options)
    target = json.dumps(base_url + asked.target)
    return f"const answer = await fetch({target}, {{\n{listed}}});\nconsole.log(await answer.json());"


def _json(value: object, indent: int | None = None) -> str:
    """Return JSON without characters that a terminal obeys or that hide others."""
    said = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", said)


def _literal(value: object) -> str:
    return pprint.pformat(value, width=WIDTH, sort_dicts=False).replace("\n", "\n    ")
