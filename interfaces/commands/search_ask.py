"""`rag-wrapper search` and `rag-wrapper ask`: questions in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from interfaces.asked_service import service_to_ask
from interfaces.commands.options import JsonObject, QuestionCommand, json_option, print_json, url_option
from schemas.ways import FUSIONS

if TYPE_CHECKING:
    from interfaces.terminal.screen import Screen
    from providers.outbound.json_client import JsonClient

MOST = 100
PASSAGES = 5
MOST_PASSAGES = 20
CHAT_UNAVAILABLE = "chat_unavailable"
AROUND = {"by": "document_id", "order_by": ["chunk_index"]}
"""How the passages around a hit are gathered."""
NOTHING = 1
"""The exit code when nothing fits."""
NOT_WHOLE = 3
"""The exit code when the answer ends before its end."""

Json = dict[str, Any]

# The names of parameters that narrow a question are those of the fields of requests.
collections_option = click.option(
    "--collection",
    "collections",
    metavar="NAME",
    multiple=True,
    help="Collection to ask, by its name or as prefix*; may be repeated.  [default: all text collections]",
)
min_relevance_option = click.option(
    "--min-relevance",
    type=click.FloatRange(0, 1),
    help="Leave out what is less relevant, from 0 to 1.  [default: what suits the embedding model]",
)
where_option = click.option("--where", type=JsonObject(), help="""Filter by metadata, for example '{"kind": "pdf"}'.""")
per_document_option = click.option(
    "--max-per-document", type=click.IntRange(1, 100), help="The most passages of one document.  [default: 3]"
)


@click.command(cls=QuestionCommand)
@click.argument("question")
@collections_option
@click.option(
    "--top-k", "limit", type=click.IntRange(1, MOST), default=10, show_default=True, help="The most passages to show."
)
@click.option(
    "--context",
    type=click.IntRange(0, MOST),
    default=0,
    help="Also show this many passages before and after each hit, of the same document.",
)
@min_relevance_option
@where_option
@per_document_option
@click.option("--oracle", "oracles", metavar="NAME", multiple=True, help="Ask only semantic, lexical or persona.")
@click.option("--fusion", type=click.Choice(FUSIONS), help="How the answers of the oracles become one.")
@click.option("--rerank", metavar="CONNECTION", help="Have a reranking model put the first 100 in its own order.")
@click.option("--explain", is_flag=True, help="Say who found what, at which rank with which score, and what was cut.")
@click.option("--full", is_flag=True, help="Show whole passages, not only the parts around the question's words.")
@url_option
@json_option
@click.pass_context
def search(
    ctx: click.Context,
    question: str,
    context: int,
    explain: bool,
    full: bool,
    url: str,
    as_json: bool,
    **asked: Any,
) -> None:
    """Show what fits QUESTION best: where it stands, how relevant it is, and the passage.

    --json prints the answer of POST /api/search.

    Exit code: 0 if something fits, 1 if nothing does, 2 if the question could not be asked.
    """
    from interfaces.terminal.answers import about_the_search, candidates, found_by, show_hit
    from interfaces.terminal.screen import Screen
    from schemas.words.comparing import AskedWords

    body = {"query": question, **_given(asked)}
    if explain:
        body["explain"] = True
    if context:
        body["gather"] = {**AROUND, "before": context, "after": context}
    screen = Screen()
    with service_to_ask(url) as service:
        answer = service.post("/api/search", body)
        results, receipt = answer["results"], answer["receipt"]
        if as_json:
            print_json(answer)
        else:
            words = AskedWords(question)
            for rank, hit in enumerate(results, start=1):
                if rank > 1:
                    screen.show()
                show_hit(screen, hit, words, answer.get("groups", ()), full=full)
                for line in found_by(hit, rank) if explain else ():
                    screen.show_faint(line, indent="    ")
            if not results:
                _say_nothing(screen, receipt)
            if not explain:
                _say_shortfalls(receipt, body)
            if held_back := receipt.get("held_back"):
                screen.show_faint(f"{held_back} more of these documents; --max-per-document shows them")
            for line in about_the_search(answer, candidates(service, body)) if explain else ():
                screen.show_faint(line)
    ctx.exit(0 if results else NOTHING)


@click.command(cls=QuestionCommand)
@click.argument("question")
@collections_option
@click.option(
    "--top-k",
    type=click.IntRange(1, MOST_PASSAGES),
    default=PASSAGES,
    show_default=True,
    help="The most passages that the chat model is given.",
)
@min_relevance_option
@where_option
@per_document_option
@click.option(
    "--conversation", metavar="ID", help="Go on with this conversation, which begins with its first question."
)
@click.option("--connection", metavar="ID", help="Connection that answers.  [default: the service's chat model]")
@click.option("--model", metavar="NAME", help="Chat model.  [default: that of the connection]")
@url_option
@json_option
@click.pass_context
def ask(
    ctx: click.Context,
    question: str,
    top_k: int,
    conversation: str | None,
    connection: str | None,
    model: str | None,
    url: str,
    as_json: bool,
    **asked: Any,
) -> None:
    """Answer QUESTION by the chat model, as it says it, with the numbered sources that it was given.

    Without a chat model the passages are shown. --json prints {answer, finish_reason, sources, relevance}.

    Exit code: 0 if there is an answer with sources, 1 if nothing relevant was found, 2 if the question could not be
    asked or the answer broke off, 3 if the model ended the answer before its end, at its limit or by a filter.
    """
    from interfaces.terminal.screen import Screen
    from schemas.errors import UnavailableError

    chosen = {"conversationId": conversation, "connection": connection, "model": model}
    body = {"message": question, "useRag": True, "ragTopK": top_k, **_given({**chosen, **asked})}
    screen = Screen()
    with service_to_ask(url) as service:
        try:
            code = _asked(screen, service, body, as_json=as_json)
        except UnavailableError as error:
            if error.code != CHAT_UNAVAILABLE:
                raise
            click.echo(f"No chat model answers ({error.message}); these are the passages.", err=True)
            passages = {"query": question, "limit": top_k, **_given(asked)}
            code = 0 if _without_model(screen, service, passages, as_json=as_json) else NOTHING
    ctx.exit(code)


def _given(options: Json) -> Json:
    return {name: value for name, value in options.items() if value is not None and value != ()}


def _asked(screen: Screen, service: JsonClient, body: Json, *, as_json: bool) -> int:
    """Show the model's answer, after its thoughts where the service shows them. Return the exit code."""
    from interfaces.terminal.answers import answer_of, show_sources
    from interfaces.terminal.screen import FAINT
    from providers.outbound.answer_streams import event_data
    from schemas.errors import UnavailableError

    turn: Json = {}
    if as_json:
        turn = service.post("/api/chat", body)
    else:
        has_begun = is_thinking = False
        try:
            with service.events("/api/chat", {**body, "stream": True}, event_data) as events:
                for event in events:
                    if "thought" in event:
                        screen.write(event["thought"], FAINT)
                        has_begun = is_thinking = True
                    elif "delta" in event:
                        screen.write("\n\n" * is_thinking + event["delta"])
                        has_begun, is_thinking = True, False
                    else:
                        turn = event
        except UnavailableError as error:
            if not has_begun:
                raise
            screen.show()
            raise UnavailableError(f"The answer broke off: {error.message}") from error
        screen.show()
    for sentence in turn.get("warnings", ()):
        click.echo(sentence, err=True)
    if as_json:
        print_json(answer_of(turn))
    else:
        asked = turn.get("receipt", {}).get("query_text", body["message"])
        if asked != body["message"]:
            screen.show_faint(f"Searched for: {asked}")
        show_sources(screen, turn)
    if turn.get("finishReason", "stop") != "stop":
        return NOT_WHOLE
    return 0 if turn["ragSources"] else NOTHING


def _without_model(screen: Screen, service: JsonClient, body: Json, *, as_json: bool) -> bool:
    """Show the passages that a model would have been given. Return whether there are any."""
    from interfaces.terminal.answers import answer_of_passages, show_hit
    from schemas.words.comparing import AskedWords

    answer = service.post("/api/search", body)
    _say_shortfalls(answer["receipt"], body)
    if as_json:
        print_json(answer_of_passages(answer))
    elif not answer["results"]:
        _say_nothing(screen, answer["receipt"])
    else:
        for number, hit in enumerate(answer["results"], start=1):
            if number > 1:
                screen.show()
            show_hit(screen, hit, AskedWords(body["query"]), number=number)
    return bool(answer["results"])


def _say_nothing(screen: Screen, receipt: Json) -> None:
    asked = [name for name, each in receipt["collections"].items() if each["status"] == "asked"]
    screen.show(f"Nothing relevant was found. Asked: {', '.join(asked) or 'no collection'}.")
    below = receipt.get("below_min_relevance")
    if below:
        least = receipt["min_relevance"]
        screen.show(f"Less relevant than {least:.0%}, and left out: {below}; --min-relevance 0 shows them.")


def _say_shortfalls(receipt: Json, body: Json) -> None:
    from interfaces.passages.shortfalls import shortfalls

    for sentence in shortfalls(receipt, least=body.get("min_relevance")):
        click.echo(sentence, err=True)
