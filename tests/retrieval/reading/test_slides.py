"""What is read of the slides of PowerPoint, and what of them is only named."""

import pytest

from retrieval.parsing.office import slides
from tests.support.documents.samples import zipped

PREFIXES = ("p", "a", "a14", "mc", "m", "c", "dgm", "r")  # which namespaces they stand for does not count
NAMES = " ".join(f'xmlns:{prefix}="{prefix}"' for prefix in PREFIXES)


def words(text, properties=""):
    return f"<a:p>{properties}<a:r><a:t>{text}</a:t></a:r></a:p>"


def sp(inner, placeholder="", attributes=""):
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="1" {attributes}/><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr>'
        f"<p:txBody>{inner}</p:txBody></p:sp>"
    )


def frame(inner):
    return f"<p:graphicFrame><a:graphic><a:graphicData>{inner}</a:graphicData></a:graphic></p:graphicFrame>"


POINTS = (("0", "doc", ""), ("1", "node", "weigh"), ("2", "node", "label"), ("3", "node", "unpack"))
DIAGRAM = "".join(f'<dgm:pt modelId="{n}" type="{kind}"><dgm:t>{words(t)}</dgm:t></dgm:pt>' for n, kind, t in POINTS)
ORDER = "".join(f'<dgm:cxn srcId="0" destId="{to}" srcOrd="{order}"/>' for order, to in enumerate("312"))
SERIES = """<c:ser><c:tx><c:pt idx="0"><c:v>Q1</c:v></c:pt></c:tx><c:cat><c:pt idx="0"><c:v>East</c:v></c:pt></c:cat>
<c:val><c:pt idx="0"><c:v>4.2999999999999998</c:v></c:pt></c:val></c:ser><c:ser><c:tx><c:v>Share</c:v></c:tx><c:cat>
<c:pt idx="0"><c:v>East</c:v></c:pt></c:cat><c:val><c:numCache><c:formatCode>0.0%</c:formatCode><c:pt idx="0"><c:v>0.475</c:v>
</c:pt></c:numCache></c:val></c:ser>"""
PARTS = {
    "diagramData": f"<dgm:ptLst>{DIAGRAM}</dgm:ptLst><dgm:cxnLst>{ORDER}</dgm:cxnLst>",
    "diagramDrawing": words("weigh"),
    "chart": f"<c:chart><c:title>{words('Sales')}</c:title>{SERIES}</c:chart>",
    "comments": "<p:cm/>",
    "notesSlide": sp(words("7"), '<p:ph type="sldNum"/>') + sp(words("Aside")),
}
MERGED = (
    f'<a:tr><a:tc rowSpan="2">{words("North")}</a:tc><a:tc gridSpan="2">{words("two") + words("lines")}</a:tc>'
    f'<a:tc hMerge="1">{words("GONE")}</a:tc></a:tr>'
    f'<a:tr><a:tc vMerge="1"/><a:tc>{words("x")}</a:tc><a:tc>{words("y")}</a:tc></a:tr>'
)
NUMBER = '<a:pPr lvl="{}"><a:buAutoNum type="{}"/></a:pPr>'
STEPS = [(0, "arabicPeriod"), (1, "alphaLcParenR"), (1, "alphaLcParenR"), (0, "arabicPeriod"), (1, "romanUcParenBoth")]


def read(*shown, attributes=""):
    """Return what is read of slides of these shapes; all but the first have `attributes`."""
    relations = "".join(f'<R Id="{name}" Type="{name}" Target="../{name}.xml"/>' for name in PARTS)
    members = {f"ppt/{name}.xml": f"<p:part {NAMES}>{inner}</p:part>" for name, inner in PARTS.items()}
    ids = "".join(f'<p:sldId r:id="s{n}"/>' for n in range(len(shown)))
    members["ppt/presentation.xml"] = f"<p:p {NAMES}><p:sldIdLst>{ids}</p:sldIdLst></p:p>"
    links = "".join(f'<R Id="s{n}" Type="slide" Target="slides/s{n}.xml"/>' for n in range(len(shown)))
    members["ppt/_rels/presentation.xml.rels"] = f"<Rs>{links}</Rs>"
    for n, shapes in enumerate(shown):
        members[f"ppt/slides/s{n}.xml"] = f"<p:sld {NAMES} {attributes if n else ''}>{shapes}</p:sld>"
        members[f"ppt/slides/_rels/s{n}.xml.rels"] = f"<Rs>{relations}</Rs>"
    return slides.parse(zipped(members))


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (frame(f"<a:tbl>{MERGED}</a:tbl>"), "| North | two lines |  |\n| --- | --- | --- |\n| North | x | y |"),
        (frame('<dgm:relIds r:dm="diagramData"/>'), "unpack\n\nweigh\n\nlabel"),
        (frame('<c:chart r:id="chart"/>'), "Sales\n\n|  | Q1 | Share |\n| --- | --- | --- |\n| East | 4.3 | 47.5% |"),
        (
            f"<mc:AlternateContent><mc:Choice>{sp(words('once'))}</mc:Choice><mc:Fallback>{sp(words('once'))}"
            "</mc:Fallback></mc:AlternateContent>",
            "once",
        ),
        (
            sp("<a:p><a:r><a:t>So </a:t></a:r><a14:m><m:oMath><m:r><m:t>x=2</m:t></m:r></m:oMath></a14:m></a:p>"),
            "So x=2",
        ),
        (sp('<a:p><a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>9</a:t></a:r></a:p>'), "10^9"),
        (sp("".join(words("s", NUMBER.format(*step)) for step in STEPS)), "1. s\n\na) s\n\nb) s\n\n2. s\n\n(I) s"),
        (f"<p:grpSp>{sp(words('in'))}<p:grpSp>{sp(words('groups'))}</p:grpSp></p:grpSp>", "in\n\ngroups"),
        ('<p:pic><p:nvPicPr><p:cNvPr descr="A map of the bay"/></p:nvPicPr></p:pic>', "A map of the bay"),
    ],
)
def test_what_a_slide_shows_is_read_once(shapes, text):
    document = read(sp(words("First"), '<p:ph type="ctrTitle"/>') + shapes)
    assert (document.title, document.text) == ("First", f"# First\n\n{text}\n\n## Notes\n\nAside\n")
    assert document.warnings == ["Comments are left out: 1"]


def test_what_is_hidden_or_cannot_be_read_is_left_out_and_named():
    unseen = sp(words("HIDDEN"), attributes='hidden="1"') + f"<p:grpSp>{sp(words('seen'))}</p:grpSp>"
    unread = frame('<c:chart r:id="gone"/>') + frame('<p:oleObj progId="Excel.Sheet.12"/>')
    document = read(unseen + unread, *[sp(words("HIDDEN"))] * 2, attributes='show="0"')
    assert document.text == "# Slide 1\n\nseen\n\n## Notes\n\nAside\n"
    assert (document.title, document.marks, document.pages) == (None, [(1, {"slide": 1})], 3)
    assert document.warnings == [
        "Hidden slides are left out: 2-3",
        "Hidden shapes are left out on slides 1",
        "Charts are left out on slides 1",
        "Comments are left out: 1",
        "Embedded objects are left out: Excel.Sheet.12",
    ]
