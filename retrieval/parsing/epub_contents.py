"""The table of contents of an EPUB book, and its titles as headings of chapters that have none."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from posixpath import dirname, join, normpath
from urllib.parse import unquote

from lxml import etree

from retrieval.parsing.html_pages import characters, html_root
from retrieval.parsing.html_text import BLOCKS, HEADINGS, local_name, text_of
from retrieval.parsing.office.archives import Archive
from retrieval.parsing.parsed import UnreadableError, collapsed

_NCX = "application/x-dtbncx+xml"
_PARTS_OF_A_TITLE = 4  # paragraphs in which a chapter may say its title: "Chapter 1", "The Flood"


@dataclass(frozen=True, slots=True)
class Entry:
    """A title, how deep it stands in the contents from 1, and the id of what it leads to, "" for all of a chapter."""

    title: str
    level: int
    anchor: str


def contents_of(archive: Archive, items: list[etree._Element], folder: str) -> dict[str, list[Entry]]:
    """Return the entries for each chapter by its name, of the nav of EPUB 3, else of the NCX of EPUB 2."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for is_wanted, read in ((_is_nav, _of_nav), (_is_ncx, _of_ncx)):
        for item in items:
            name = normpath(join(folder, unquote(item.get("href", ""))))
            if found or not is_wanted(item) or not archive.has(name):
                continue
            try:
                entries = read(archive, name)
            except UnreadableError:
                continue
            for level, title, target in entries:
                file, _, anchor = target.partition("#")
                if title and target:
                    place = normpath(join(dirname(name), unquote(file))) if file else name
                    found[place].append(Entry(title, level, unquote(anchor)))
    return found


def add_headings(body: etree._Element, entries: list[Entry]) -> None:
    """Give a chapter that has no headings the titles of its entries, at what they lead to. Paragraphs there that say
    the title become the heading."""
    if any(True for _ in body.iter(*HEADINGS)):
        return
    places: dict[str, int] = {}  # of anchors, in the list of paragraphs
    wanted = {entry.anchor for entry in entries} - {""}
    paragraphs: list[etree._Element] = []
    within = None
    for event, element in etree.iterwalk(body, events=("start", "end")):
        if event == "end":
            within = None if element is within else within
            continue
        is_paragraph = local_name(element) in BLOCKS and not any(local_name(each) in BLOCKS for each in element)
        if within is None and is_paragraph and element is not body and text_of(element):
            paragraphs.append(element)
            within = element
        anchor = element.get("id") or element.get("name") or ""
        if anchor in wanted:
            places.setdefault(anchor, len(paragraphs) - (within is not None))
    for entry in entries:
        at = places.get(entry.anchor, 0)
        if at < len(paragraphs):
            _add_heading(paragraphs[at : at + _PARTS_OF_A_TITLE], entry)


def _add_heading(paragraphs: list[etree._Element], entry: Entry) -> None:
    added = etree.Element(f"h{min(entry.level, 6)}")
    added.text = entry.title
    paragraphs[0].addprevious(added)
    title, said = _letters(entry.title), ""
    for number, paragraph in enumerate(paragraphs, start=1):
        said += _letters(text_of(paragraph))
        if said in (title, title.lstrip("0123456789")):
            for each in paragraphs[:number]:
                each.clear(keep_tail=True)
        if not title.startswith(said):
            break


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _is_nav(item: etree._Element) -> bool:
    return "nav" in (item.get("properties") or "").split()


def _is_ncx(item: etree._Element) -> bool:
    return item.get("media-type") == _NCX


def _of_nav(archive: Archive, name: str) -> list[tuple[int, str, str]]:
    root = html_root(characters(archive.read(name)))
    navs = list(root.iter("nav"))
    contents = next((each for each in navs if "toc" in f"{each.get('epub:type')} {each.get('role')}"), None)
    found, level = [], 0
    for event, each in etree.iterwalk(contents if contents is not None else root, events=("start", "end")):
        if local_name(each) == "ol":
            level += 1 if event == "start" else -1
        elif event == "start" and local_name(each) == "a" and level:
            found.append((level, text_of(each), each.get("href") or ""))
    return found


def _of_ncx(archive: Archive, name: str) -> list[tuple[int, str, str]]:
    found, level = [], 0
    for event, each in etree.iterwalk(archive.xml(name), events=("start", "end")):
        if local_name(each) == "navpoint":
            level += 1 if event == "start" else -1
            if event == "start":
                target = each.find("{*}content")
                title = collapsed(each.findtext("{*}navLabel/{*}text") or "")
                found.append((level, title, (target.get("src") or "") if target is not None else ""))
    return found
