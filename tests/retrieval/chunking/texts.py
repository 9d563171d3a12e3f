"""Texts to split: Markdown of all kinds, and prose in which no word occurs twice."""

from hypothesis import strategies as st

words = st.text("abcdefgh ij.", min_size=1, max_size=60).map(lambda text: text.strip() or "word")
lines = st.lists(words, min_size=1, max_size=6).map("\n".join)
titles = words.map(lambda text: f"T {text}")  # no other line begins like a title
headings = st.builds(lambda level, title: "#" * level + " " + title, st.integers(1, 4), titles)
setext = st.builds(lambda title, rule: f"{title}\n{rule}", titles, st.sampled_from(["===", "---"]))
fences = st.builds(lambda mark, body: f"{mark}sh\n# {body}\n\n{body}\n{mark}", st.sampled_from(["```", "~~~"]), lines)
lists = st.lists(words, min_size=1, max_size=8).map(lambda items: "\n".join(f"- {item}\n\n  more" for item in items))
quotes = words.map(lambda text: f"> # {text}\n> {text}")
blocks = st.one_of(lines, headings, setext, fences, lists, quotes, st.just("\n"), st.just("---"), st.just("[a]: /url"))
markdown = st.lists(blocks, max_size=15).map("\n\n".join)


@st.composite
def unique_prose(draw) -> str:
    """Draw sentences, paragraphs, lists, code and headings of numbered words, which show what two chunks share."""
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=60))
    ends = draw(
        st.lists(st.sampled_from([" ", " ", "\n", "\n\n", "\n\n## H ", "\n- ", "\n\n    "]), min_size=1, max_size=8)
    )
    text, number = "", 0
    for position, length in enumerate(lengths):
        text += " ".join(f"w{number + word}" for word in range(length)).capitalize() + "." + ends[position % len(ends)]
        number += length
    return text


def inked_lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def inked(text: str) -> str:
    return "".join(text.replace("\ufeff", "").split())
