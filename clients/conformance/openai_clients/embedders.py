"""What the embedders of LangChain, LlamaIndex and Haystack ask, which take OpenAI's base URL, and LangChain's chat."""

from __future__ import annotations

import os

from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.utils import Secret
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from llama_index.embeddings.openai_like import OpenAILikeEmbedding

URL, KEY, MODEL = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"], "all-MiniLM-L6-v2"
TEXTS = ["Backups are kept for thirty days.", "The coffee machine is cleaned every Friday."]
QUESTION = "How long are backups kept?"


def is_nearer(question, first, second):
    """Tell whether a question is nearer to the first of two vectors."""
    return sum(map(float.__mul__, question, first)) > sum(map(float.__mul__, question, second))


langchain = OpenAIEmbeddings(model=MODEL, base_url=URL, api_key=KEY, check_embedding_ctx_length=False)
assert is_nearer(langchain.embed_query(QUESTION), *langchain.embed_documents(TEXTS))
chat = ChatOpenAI(model="rag", base_url=URL, api_key=KEY, extra_body={"vector_store_ids": [os.environ["COLLECTION"]]})
assert chat.invoke(QUESTION).content == "So it is."
assert "".join(part.content for part in chat.stream(QUESTION)) == "So it is."

llama_index = OpenAILikeEmbedding(model_name=MODEL, api_base=URL, api_key=KEY)
assert is_nearer(llama_index.get_query_embedding(QUESTION), *llama_index.get_text_embedding_batch(TEXTS))

how = {"model": MODEL, "api_base_url": URL, "api_key": Secret.from_token(KEY)}
documents = OpenAIDocumentEmbedder(**how).run([Document(content=text) for text in TEXTS])["documents"]
assert is_nearer(OpenAITextEmbedder(**how).run(QUESTION)["embedding"], *(document.embedding for document in documents))
