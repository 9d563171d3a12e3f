"""The language of a document, by whose rules the word index takes the endings off its words.

Only languages in Latin letters have to be told apart: a word in other letters shows its language well enough.
"""

from __future__ import annotations

import threading
from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from schemas.records import Metadata
from schemas.words.splitting import split
from schemas.words.stems import DEFAULT, LANGUAGES
from schemas.words.stop_words import STOP_WORDS

ALSO_CALLED = {"nb": "no", "nn": "no"}

READ_CHARACTERS = 500
"""The beginning of a text that is read to tell its language."""
FEWEST_WORDS = 5
"""The fewest words that tell a language."""
ENGLISH_SHARE = 0.2
"""The share of English stop words in a text that is English beyond doubt."""
SURE = 0.9
"""The least probability with which a text is taken for another language than English."""

_guard = threading.Lock()


def language_of(text: str, metadata: Metadata, collection: Metadata) -> str:
    """Return the language of a document: one of `LANGUAGES`, or English.

    The `language` of its own metadata decides, else that of its collection's, else the beginning of the text. What is
    neither said nor sure is English.
    """
    return declared_language(metadata) or declared_language(collection) or _detected(text[:READ_CHARACTERS])


def declared_language(metadata: Metadata) -> str | None:
    """Return the language that metadata name, None when they name none that has rules here."""
    tag = metadata.get("language")
    if not isinstance(tag, str):
        return None
    primary = tag.strip().lower().replace("_", "-").partition("-")[0]
    primary = ALSO_CALLED.get(primary, primary)
    return primary if primary in LANGUAGES or primary == DEFAULT else None


def _detected(text: str) -> str:
    spaced = text.lower().split()
    if sum(map(STOP_WORDS[DEFAULT].__contains__, spaced)) >= ENGLISH_SHARE * len(spaced):
        return DEFAULT
    words = [word for word in split(text) if word[0] < "\u0250" and not word[0].isdigit()]
    if len(words) < FEWEST_WORDS:
        return DEFAULT
    with _guard:
        found, probability = _identifier().classify(" ".join(words))
    found = ALSO_CALLED.get(found, found)
    return found if found in LANGUAGES and probability >= SURE else DEFAULT


@cache
def _identifier() -> LanguageIdentifier:
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    # Neighbours of ours that have no rules, like Malay and Galician, are read by those of the language beside them.
    identifier.set_languages([DEFAULT, *LANGUAGES])
    identifier._full_model = None  # of all languages: 28 MB for choosing others later
    return identifier
