"""The one place that says how files are split, by settings, model and syntax."""

import pytest

from providers.embeddings.minilm import MiniLMProvider
from retrieval.chunking import Syntax
from retrieval.chunking.tokens import token_counter
from retrieval.ingest.profiles import chunking_of, window_tokens
from schemas.settings import RetrievalSettings
from schemas.ways import CHUNKINGS
from tests.retrieval.letter_embedding import LetterEmbedding

GUIDE = "# Guide\n\n" + "How to start. " * 700 + "\n\n## Use\n\nDo that.\n"
CODE = "".join(f"value_{number} = {number}\n" for number in range(400))
CL100K = token_counter()


class Told(LetterEmbedding):
    max_input_tokens = 8_000


def test_sections_fit_into_the_window_of_the_model():
    assert window_tokens(MiniLMProvider({})) == 256
    assert window_tokens(LetterEmbedding()) == 512
    assert window_tokens(Told()) == 8_000
    for embedding, most in ((MiniLMProvider({}), 256), (LetterEmbedding(), 512)):
        assert chunking_of(RetrievalSettings(), embedding).max_tokens == most


@pytest.mark.parametrize(("profile", "chunks"), [("sections", 8), ("windows", 3), ("whole", 1)])
def test_the_setting_chooses_the_profile_and_an_option_another(profile, chunks):
    by_setting = chunking_of(RetrievalSettings(chunking=profile), LetterEmbedding())
    by_option = chunking_of(RetrievalSettings(), LetterEmbedding(), profile=profile)
    assert by_setting.label == by_option.label
    for chunking in (by_setting, by_option):
        assert abs(len(chunking.splitter(Syntax.MARKDOWN)(GUIDE).chunks) - chunks) <= 1


@pytest.mark.parametrize("profile", CHUNKINGS)
def test_code_is_split_into_windows_of_its_lines_by_every_profile(profile):
    chunking = chunking_of(RetrievalSettings(chunking=profile), LetterEmbedding())
    chunks = chunking.splitter(Syntax.CODE)(CODE).chunks
    assert len(chunks) > 5
    assert all(128 <= CL100K.count(chunk.text) <= 256 for chunk in chunks[:-1])
    assert all(line in CODE.splitlines() for chunk in chunks for line in chunk.text.splitlines())


def test_what_decides_where_cuts_are_is_in_the_label():
    settings, embedding = RetrievalSettings(), LetterEmbedding()
    made = [
        chunking_of(settings, embedding, profile=profile, max_tokens=most)
        for profile in CHUNKINGS
        for most in (None, 100, 101)
    ]
    assert len({chunking.label for chunking in made}) == len(made)
    assert chunking_of(settings, embedding).label == chunking_of(settings, embedding).label
