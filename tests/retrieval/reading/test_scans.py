"""Text in pictures: where it comes to stand, what is said of pages without, and what Tesseract reads."""

import io
import re
import struct
import sys
import zlib
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image

from retrieval.parsing import child
from retrieval.parsing.child import Question
from retrieval.parsing.parsed import EMPTY, TOO_LARGE, TOO_SLOW, UNREADABLE, UNSUPPORTED_KIND, Parsed, UnreadableError
from retrieval.parsing.pdf import pdf_pages
from retrieval.reading import DocumentReader, Languages, kind_named, kind_of_file, scans
from retrieval.reading.scans import recognise
from schemas.settings import RetrievalSettings

SCANS = Path(__file__).parents[2] / "support" / "documents" / "scans"
LIGHTHOUSE, FERRY = ((SCANS / name).read_bytes() for name in ("lighthouse.pdf", "ferry.png"))
SENTENCE = "The ferry leaves at seven\n"
BLANK, SLOW, NEEDED = (EMPTY, ""), (TOO_SLOW, "takes long"), (UNSUPPORTED_KIND, "that needs the extra 'ocr'")
needs_ocr = pytest.mark.skipif(find_spec("tesserocr") is None, reason="the extra 'ocr' is not installed")


def recognised(told, text="", marks=()):
    """A document whose scanned pages are told so: a text, or a code and a message."""
    document = Parsed(text, marks=list(marks), scanned=list(told))

    def ask(page):
        answer = told[page]
        return {"parsed": {"text": answer}} if isinstance(answer, str) else {"code": answer[0], "message": answer[1]}

    recognise(document, ask, lambda place, count: None)
    return document


def test_recognised_text_stands_between_the_pages_with_text_and_says_what_it_is():
    text = "First.\n\nStill first.\n\nFourth.\n"
    told = {2: "Second\nline.", 3: BLANK, 4: "Fourth. Scanned.", 5: "Fifth."}
    found = recognised(told, text, [(1, {"page": 1}), (5, {"page": 4})])
    assert found.text == "First.\n\nStill first.\n\nSecond\nline.\n\nFourth. Scanned.\n\nFifth.\n"
    places = [
        (1, {"page": 1}),
        (5, {"page": 2, "ocr": True}),
        (8, {"page": 4, "ocr": True}),
        (10, {"page": 5, "ocr": True}),
    ]
    assert found.marks == places
    assert found.warnings == [
        "Text was recognised in the pictures of pages 2, 4-5: letters may be wrong",
        "No text was recognised in the pictures of page 3",
    ]


@pytest.mark.parametrize(
    ("told", "warnings"),
    [
        ([NEEDED] * 9, ["pages 2-10 were not read: that needs the extra 'ocr'"]),
        (
            [(UNREADABLE, "is damaged"), *[SLOW] * 5],
            [
                "page 2 were not read: is damaged",
                "pages 3-5 were not read: takes long",
                "pages 6-7 were not read: 3 of those before took too long",
            ],
        ),
        (["Words."] * 12, ["pages 12-13 were not read: text is recognised in 10 pages at most"]),
    ],
)
def test_pages_that_are_not_read_are_named_with_the_reason(monkeypatch, told, warnings):
    monkeypatch.setattr(scans, "MAX_PAGES", 10)
    found = recognised(dict(enumerate(told, start=2)), "First.\n", [(1, {"page": 1})])
    assert [each.removeprefix("The pictures of ") for each in found.warnings if "not read" in each] == warnings


@pytest.mark.parametrize(
    ("told", "refused"),
    [
        (NEEDED, (EMPTY, "has no text layer: that needs the extra 'ocr'")),
        (SLOW, SLOW),
        (BLANK, (EMPTY, "contains no text, and none was recognised in its pictures")),
    ],
)
def test_a_scan_of_which_nothing_is_read_is_refused_with_the_reason(told, refused):
    with pytest.raises(UnreadableError) as caught:
        recognised({1: told, 2: told})
    assert (caught.value.code, caught.value.message) == refused


def test_languages_come_from_the_packages_and_a_folder_and_missing_ones_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(scans.sysconfig, "get_path", lambda name: str(tmp_path))
    installed, own = tmp_path / "share" / "tessdata", tmp_path / "own"
    for folder, name in ((installed, "eng"), (installed, "osd"), (own, "fra"), (own, "eng")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.traineddata").touch()
    assert Languages().places() == [str(installed / "eng")]
    assert Languages(own).places() == [str(own / "eng"), str(own / "fra")]
    assert Languages.of(RetrievalSettings(ocr_data=str(own), ocr_languages="fra+eng")).names == ("fra", "eng")
    with pytest.raises(UnreadableError, match="languages xyz of RAG_OCR_LANGUAGES, but of eng, fra, osd"):
        Languages(own, ("fra", "xyz")).places()


def test_pages_with_a_picture_and_no_text_and_pictures_without_a_suffix_are_known():
    parsed = pdf_pages.parse(LIGHTHOUSE)
    assert (parsed.scanned, parsed.pages, parsed.warnings) == ([2, 3, 4, 5, 6], 7, [])
    for content in (FERRY, b"\xff\xd8\xff\xe0", b"II*\0", b"MM\0*"):
        assert kind_of_file("scan", partial(io.BytesIO, content)).name == "image"


@pytest.mark.parametrize(("kind", "page"), [("image", 0), ("image", 1), ("pdf", 1)])
def test_without_the_extra_the_sentence_says_how_to_get_it(monkeypatch, kind, page):
    monkeypatch.delitem(sys.modules, "retrieval.parsing.scans.recognition", raising=False)
    monkeypatch.setitem(sys.modules, "tesserocr", None)
    answer = child._answer(Question(kind, 1, 256, 1, page), b"x")
    assert b"unsupported_kind" in answer
    assert b"text in pictures needs the extra 'ocr': pip install 'rag-wrapper[ocr]'" in answer


@pytest.fixture(scope="module")
def read():
    with closing(DocumentReader(languages=Languages(names=("eng",)))) as reader:
        yield lambda content, kind="image": reader.read(content, kind_named(kind), name=f"a.{kind}")


@needs_ocr
def test_a_picture_is_read(read):
    assert (read(FERRY).text, read(FERRY).marks) == (SENTENCE, [(1, {"page": 1, "ocr": True})])


@needs_ocr
@pytest.mark.slow
def test_each_scanned_page_is_found_by_its_words_whatever_its_language_and_also_upside_down():
    told = []
    with closing(DocumentReader()) as reader:
        found = reader.read(LIGHTHOUSE, kind_named("pdf"), name="a.pdf", on_page=lambda *place: told.append(place))
    assert told == [(place, 5) for place in range(1, 6)]
    words = {
        (1, False): "Instructions for the keeper",
        (2, True): "the spare wicks lie in the cedar chest below the stairs. When fog comes in,",
        (3, True): "Die Ersatzdochte liegen in der Zedernholztruhe unter der Treppe. Bei Nebel läutet",
        (4, True): "灯台守は毎晩、潮の高さを青い帳簿に記録します。予備の灯芯は階段の下の箱に入っています。",
        (6, True): "the receipts are pinned to the board beside the barometer.",
        (7, False): "Northern Coast Press.",
    }
    lines, ends = found.text.splitlines(), [line - 1 for line, _ in found.marks[1:]]
    for (line, mark), end in zip(found.marks, [*ends, None], strict=True):
        assert words.pop((mark["page"], mark.get("ocr", False))) in " ".join(lines[line - 1 : end])
    assert words == {}
    assert ["pages 2-4, 6:" in found.warnings[0], found.warnings[1].endswith("of page 5")] == [True, True]


def saved(form, change=lambda image: image, **options):
    """The picture in another form."""
    written = io.BytesIO()
    with Image.open(io.BytesIO(FERRY)) as image:
        change(image).save(written, form, **options)
    return written.getvalue()


def on_nothing(image):
    black = Image.new("RGBA", image.size, (0, 0, 0, 0))
    black.putalpha(image.point(lambda value: 255 - value))
    return black


TURNED = Image.Exif()
TURNED[0x112] = 6
PICTURES = {
    "1 bit": ("PNG", lambda image: image.convert("1"), {}),
    "16 bit": ("PNG", lambda image: image.convert("I").point(lambda value: value * 200).convert("I;16"), {}),
    "on nothing": ("PNG", on_nothing, {}),
    "palette": ("PNG", lambda image: image.convert("P"), {}),
    "cmyk": ("JPEG", lambda image: image.convert("CMYK"), {}),
    "as a camera says": ("JPEG", lambda image: image.rotate(90, expand=True), {"exif": TURNED}),
    "upside down": ("PNG", lambda image: image.rotate(180), {}),
    "fax": ("TIFF", lambda image: image.convert("1"), {"compression": "group4"}),
    "animated": ("PNG", Image.Image.copy, {"save_all": True, "append_images": [Image.new("L", (760, 90))]}),
}


@needs_ocr
@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_all_kinds_are_read(read, name):
    form, change, options = PICTURES[name]
    assert read(saved(form, change, **options)).text == SENTENCE


def black(side):
    """A PNG of so many pixels, squared, of one bit each."""
    row = zlib.compressobj(1)
    content = b"".join(row.compress(bytes(side // 8 + 1)) for _ in range(side)) + row.flush()
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    parts = (b"IHDR" + head, b"IDAT" + content, b"IEND")
    sums = (struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(sums)


@needs_ocr
@pytest.mark.slow
def test_hostile_pictures_end_in_a_sentence(read, tmp_path):
    halves = [whole[: len(whole) // 2] for whole in (FERRY, saved("JPEG"), saved("TIFF", compression="tiff_lzw"))]
    dot = saved("TIFF", lambda image: image.resize((8, 8)))
    refused = {TOO_LARGE: [black(30_000)], EMPTY: [black(9_000), dot], UNREADABLE: [*halves, saved("GIF"), b"none"]}
    for code, contents in refused.items():
        for content in contents:
            with pytest.raises(UnreadableError) as caught:
                read(content)
            assert caught.value.code == code
    assert read(re.sub(rb"/MediaBox \[[^]]+", b"/MediaBox [0 0 14400 14400", LIGHTHOUSE), "pdf").pages == 7
    (tmp_path / "bad.traineddata").write_bytes(b"no data")
    with closing(DocumentReader(languages=Languages(tmp_path))) as reader:
        found = reader.read(LIGHTHOUSE, kind_named("pdf"), name="a.pdf")
    said = "the data of languages cannot be used: bad.traineddata"
    assert found.warnings == [f"The pictures of pages 2-6 were not read: {said}"]
