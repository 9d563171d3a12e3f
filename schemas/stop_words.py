"""Words that say how a question is asked and not what it is about.

They are Lucene's English stop words, and the pronouns, question words and auxiliary verbs of Snowball's list. Words of
place and direction (`up`, `before`, `under`), which Snowball has too, are not: `turn off` is not `turn on`.
"""

from __future__ import annotations

STOP_WORDS = frozenset(
    """
    a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to
    was will with
    i me my we our you your he him his she her its them those
    what which who whom when where why how
    am been being can could did do does doing from had has have having should so than were would
    """.split()  # noqa: SIM905 (a list of one word a line would be unreadable)
)
