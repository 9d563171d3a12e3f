"""HTML: the main content of a page, without navigation, banners and what is hidden."""

from __future__ import annotations

import re

from lxml import etree, html

from retrieval.parsing.declared_encodings import decoded_as
from retrieval.parsing.html_markdown import markdown_blocks
from retrieval.parsing.html_text import BLOCKS, HEADINGS, LISTS, SKIPPED, local_name, mark_raised, text_of
from retrieval.parsing.parsed import EMPTY, MarkdownText, Parsed, UnreadableError, collapsed, heading, losses, told
from retrieval.parsing.text_encodings import decoded

_DECLARED = re.compile(
    rb"<(?:meta[^>]{0,200}?charset|\?xml[^>]{0,100}?encoding)\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.I
)
_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_SUBSET = re.compile(r"^\s*<!DOCTYPE[^<>\[]{0,500}\[([^\]]*)\]\s*>", re.I)  # declarations, which only XML has
HIDDEN_PASSAGES = "Hidden passages are left out: {}"
_LOOKED_AT = 4096
_BOILERPLATE_TAGS = frozenset(("nav", "aside", "footer", "dialog"))
_BOILERPLATE_ROLES = frozenset(
    ("navigation", "banner", "contentinfo", "complementary", "search", "dialog", "alertdialog")
)
_HIDDEN = etree.XPath(
    ".//*[not(self::body)][@hidden or @aria-hidden='true' or self::input[@type='hidden']"
    " or re:test(@style, 'display\\s*:\\s*none|visibility\\s*:\\s*hidden', 'i')"
    " or self::a[not(*)][starts-with(@href, '#') and contains('¶#§🔗⚓', normalize-space())]]"
    "[not(math) or *[2]]",  # a formula whose picture is seen
    namespaces={"re": "http://exslt.org/regular-expressions"},
)
_CONTROLS = etree.XPath(
    ".//@aria-controls | .//@data-target | .//@data-bs-target"
    " | .//a[@role='tab' or @data-toggle or @data-bs-toggle]/@href"
)
_SHOWN = "data-shown-by-a-click"
_GONE = "data-is-gone"
_WITHIN_SHOWN, _WITHIN_GONE = (etree.XPath(f"boolean(ancestor::*[@{mark}])") for mark in (_SHOWN, _GONE))
_FOLDED = re.compile(
    r"(?:^|[\s_-])(?:accordion|answer|collaps(?:e|ed|ible)|expandable|faq|panel|spoiler|tab(?:content|pane|panel)?|toggle)"
    r"(?:$|[\s_-])",
    re.I,
)
_NOT_FOLDED = re.compile(
    r"(?:^|[\s_-])(?:cookies?|consent|gdpr|dialog|drawer|dropdown|menu|modal|offcanvas|overlay|popover|popup|toast|tooltip)"
    r"(?:$|[\s_-])",
    re.I,
)
_NEVER_SHOWN = re.compile(r"(?:max-height|font-size|opacity)\s*:\s*0|mso-hide", re.I)
_ABOVE_FOLDED = frozenset((*HEADINGS, "dt", "summary", "button"))
_FOLDING = frozenset((*BLOCKS, *LISTS, "pre", "blockquote"))
_PASSAGE = 150  # characters, from which it is said that a hidden text is left out
_CONSENT = re.compile(r"(?:^|[\s_-])(?:cookies?|consent|gdpr)(?:$|[\s_-])", re.I)
_CONSENT_CHARACTERS = 2_000
_MENU = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|navheader|navfooter|menu|menubar|sidebar|sphinxsidebar|breadcrumbs?|related|"
    r"pagination|pager|skip|toc|header|footer|share|social)(?:$|[\s_-])",
    re.I,
)
_ALWAYS_A_MENU = re.compile(r"\bnav(?:header|footer)\b", re.I)  # of DocBook, with the page's title between links
_LINKS_OF_A_MENU = 0.5  # share of its characters
_SHARE_OF_MAIN = 0.5  # of a page's characters, from which its main element is all that counts


def parse(content: bytes) -> Parsed:
    """Return the main content of a page. Its title is that of `<title>`, else its only `<h1>`."""
    root = html_root(characters(content))
    title = collapsed(root.findtext(".//title") or "")
    authors = (each.get("content") for each in root.iter("meta") if (each.get("name") or "").lower() == "author")
    language = root.get("lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang") or ""
    metadata = told(next(filter(None, authors), ""), language=language)
    body = next(iter(root.iter("body")), root)
    _strip_boilerplate(body)
    hidden = strip_hidden(root, is_clicked=True)
    document, main = MarkdownText(), _main(body)
    titles = list(body.iter("h1"))
    if len(titles) == 1 and main not in (body, *titles[0].iterancestors()):
        document.add(heading(1, text_of(titles[0])))  # a page's title may stand above its main content
    document.add(*markdown_blocks(main))
    title = title or (text_of(titles[0]) if len(titles) == 1 else "")
    return document.parsed(title or None, metadata, warnings=losses((HIDDEN_PASSAGES, hidden)))


def characters(content: bytes) -> str:
    """Decode a page: by its byte order mark, by what it declares, else by what the bytes look like."""
    declared = _DECLARED.search(content[:_LOOKED_AT])
    return decoded_as(content, declared[1].decode("ascii")) if declared else decoded(content)


def html_root(text: str) -> etree._Element:
    """Return the root of a page or a piece of HTML. Raises UnreadableError when there is nothing, when entities
    are declared, and for elements some 2,000 deep."""
    parser = html.HTMLParser(huge_tree=True, remove_comments=True, remove_pis=True, no_network=True)
    # libxml2 ends at U+0000, and refuses a text that declares an encoding.
    cleaned = _XML_DECLARATION.sub("", text.replace("\0", "\ufffd"))
    if subset := _SUBSET.match(cleaned):
        if "<!entity" in subset[1].lower():
            raise UnreadableError("contains XML that declares entities")
        cleaned = cleaned[subset.end() :]
    try:
        root = html.document_fromstring(cleaned, parser=parser, ensure_head_body=False)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise UnreadableError("contains no text", EMPTY) from error
    if any(each.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for each in parser.error_log):
        raise UnreadableError("is nested too deeply")  # what stands below that would be missing
    for each in root.iter("sup"):
        mark_raised(each)
    return root


def seen_blocks(page: str) -> tuple[list[str], int]:
    """Return the blocks of all that is seen of a page, and how many passages of it are hidden. Raises what `html_root`
    raises."""
    root = html_root(page)
    hidden = strip_hidden(root)
    return markdown_blocks(next(iter(root.iter("body")), root)), hidden


def strip_hidden(root: etree._Element, *, is_clicked: bool = False) -> int:
    """Remove what nobody sees: scripts, hidden elements, and the links of headings to themselves. What a click shows,
    tabs and folded answers, stays where it `is_clicked`. Return how many passages of some length are gone."""
    passages = 0
    controlled = {each.lstrip("#") for value in _CONTROLS(root) for each in value.split()} if is_clicked else set()
    for element in _HIDDEN(root):
        if _WITHIN_GONE(element) or element.getparent() is None:
            continue
        if is_clicked and _is_folded(element, controlled):
            element.set(_SHOWN, "")
            continue
        if local_name(element) in _FOLDING and not _CONSENT.search(_named(element)):
            passages += len(text_of(element)) >= _PASSAGE and _links(element) <= _LINKS_OF_A_MENU
        element.set(_GONE, "")
        element.drop_tree()
    etree.strip_elements(root, *(SKIPPED - {"head", "title"}), with_tail=False)
    return passages


def _is_folded(element: etree._Element, controlled: set[str]) -> bool:
    """Return whether a click shows a hidden element: a tab, an answer below its question, what a button names."""
    named, before = _named(element), element.getprevious()
    is_below = before is not None and local_name(before) in _ABOVE_FOLDED and not (before.tail or "").strip()
    is_meant = element.get("role") == "tabpanel" or element.get("hidden") == "until-found" or is_below
    if not (is_meant or element.get("id") in controlled or _FOLDED.search(named)):
        return False
    if local_name(element) not in _FOLDING or _NOT_FOLDED.search(named):
        return False
    if _NEVER_SHOWN.search(element.get("style") or ""):
        return False
    return bool(_WITHIN_SHOWN(element)) or _links(element) <= _LINKS_OF_A_MENU


def _named(element: etree._Element) -> str:
    return f"{element.get('class') or ''} {element.get('id') or ''}"


def _strip_boilerplate(body: etree._Element) -> None:
    for element in list(body.iter("*")):
        if element is not body and element.getparent() is not None and _is_boilerplate(element):
            for title in element.iter("h1"):  # a page's header often holds the only title
                if sum(1 for _ in body.iter("h1")) == 1 and local_name(element) == "header":
                    element.addprevious(title)
                    break
            element.drop_tree()


def _is_boilerplate(element: etree._Element) -> bool:
    tag = local_name(element) or ""
    named = _named(element)
    if element.get("role") in _BOILERPLATE_ROLES or tag == "nav":
        return True
    if tag in _BOILERPLATE_TAGS or tag == "header":
        # Within an article they are its own, for example its title or its notes.
        return next(element.iterancestors("article", "main", "section", "blockquote"), None) is None or tag == "dialog"
    if tag in ("h1", "h2", "h3", "h4", "h5", "h6", "main", "article", "pre", "a"):
        return False
    if _CONSENT.search(named) and len(text_of(element)) < _CONSENT_CHARACTERS:
        # A banner asks for a click. A section about cookies does not.
        asks = next(element.iterdescendants("button", "input"), None) is not None
        return asks and next(element.iterancestors("article", "main"), None) is None
    is_menu = _MENU.search(named) and _links(element) > _LINKS_OF_A_MENU
    return bool(is_menu or _ALWAYS_A_MENU.search(named))


def _links(element: etree._Element) -> float:
    """Return the share of an element's characters that are links."""
    text = len(text_of(element))
    return sum(len(text_of(link)) for link in element.iter("a") if link.get("href")) / text if text else 0.0


def _main(body: etree._Element) -> etree._Element:
    """Return the element of the main content when it has most of the page's text, else the whole body."""
    whole = len(text_of(body))
    for path in (".//main", ".//div[@role='main']", ".//article"):
        found = body.findall(path)
        if len(found) == 1 and len(text_of(found[0])) >= _SHARE_OF_MAIN * whole:
            return found[0]
    return body
