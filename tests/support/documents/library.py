"""A folder of documents of every kind, two of each, each about a subject of its own, and a question about each.

Every document has two sections, on two pages, sheets or slides where the kind has them (the first slide is a title). The question is about the
second one.
"""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from itertools import starmap

from fpdf import FPDF

from tests.support.documents import samples

SUBJECTS = """
Beekeeping|Hives|A hive stands on a dry place that faces the morning sun.|Swarms|A swarm that hangs in a tree is brushed into a straw basket at dusk.|How is a swarm caught that hangs in a tree?
Lighthouses|Towers|The towers of the coast are painted in red and white bands.|Lamps|The lamp of Gull Point flashes four times a minute and is seen for twenty miles.|How often does the lamp of Gull Point flash?
Cheese|Milk|Milk is warmed slowly until the curd sets.|Ripening|Wheels ripen in the cellar for nine months and are turned every third day.|How many months do the wheels ripen in the cellar?
Tramways|Tracks|Rails are ground at night to keep them quiet.|Tickets|A tram ticket is valid for ninety minutes after it was stamped.|How long is a tram ticket valid?
Glaciers|Ice|Snow is pressed into ice within some decades.|Moraines|The long ridge of rubble that a glacier pushes ahead of itself is an end moraine.|What is the ridge of rubble called that a glacier pushes ahead?
Violins|Wood|The belly is of spruce and the back of maple.|Varnish|Makers in Cremona mixed their varnish from linseed oil and resin.|What did makers in Cremona mix their varnish from?
Orchards|Trees|Young apple trees are tied to stakes.|Pruning|Apple branches are cut back in February, before the buds swell.|In which month are apple branches cut back?
Printing|Type|Letters were cast from lead, tin and antimony.|Paper|Sheets were dampened before printing so that they took the ink evenly.|Why were sheets dampened before printing?
Canals|Locks|A lock lifts a barge by three metres.|Tolls|The toll for a barge of coal was two pence a ton and mile.|What was the toll for a barge of coal?
Falcons|Nests|Peregrines breed on cliffs and church towers.|Prey|A peregrine strikes pigeons in the air after a dive from great height.|Which birds does a peregrine strike in the air?
Pottery|Clay|Clay is kneaded until no air is left in it.|Glazes|Ash from oak wood gives the glaze its green colour.|What gives the glaze its green colour?
Vineyards|Soil|Slate keeps the warmth of the day.|Harvest|Grapes for ice wine are picked frozen, before sunrise in January.|When are the grapes for ice wine picked?
Clocks|Springs|A mainspring is wound once a week.|Pendulums|A pendulum of one metre swings once in a second.|How long is a pendulum that swings once in a second?
Weaving|Looms|The loom stands in the light of the north window.|Patterns|The herringbone pattern needs eight shafts and a broken threading.|How many shafts does the herringbone pattern need?
Caves|Dripstone|Stalactites grow a centimetre in a hundred years.|Bats|Horseshoe bats sleep in the inner chamber from October to April.|Which bats sleep in the inner chamber?
Bakery|Dough|The sourdough rests for twelve hours.|Ovens|The stone oven is heated with beech logs until its vault is white.|With which wood is the stone oven heated?
Sailing|Ropes|Sheets and halyards are of different colours.|Storms|In a gale the mainsail is reefed to its third row of points.|What happens to the mainsail in a gale?
Mosses|Growth|Peat moss grows at its top and dies below.|Uses|Sphagnum was dried and used as a dressing for wounds.|What was sphagnum used for when it was dried?
Bridges|Piers|Piers stand on piles of oak.|Arches|The middle arch of the old bridge spans thirty-one metres.|How far does the middle arch of the old bridge span?
Saffron|Fields|Crocus bulbs are planted in August.|Threads|Three red stigmas are plucked from each flower by hand and dried over charcoal.|How are the stigmas of the flower dried?
Telegraphs|Wires|Wires hang on poles with glass insulators.|Codes|Operators in the mountains sent the letter Q twice to begin a message.|Which letter began a message of the mountain operators?
Dolls|Heads|Heads of porcelain were fired twice.|Hair|The wigs of the dolls were made of mohair from Angora goats.|What were the wigs of the dolls made of?
Mines|Shafts|The shaft goes down four hundred metres.|Lamps|A miner's lamp that burns with a blue cap warns of firedamp.|What does a blue cap on a miner's lamp warn of?
Ferries|Routes|The ferry to the islands sails twice a day.|Bicycles|Bicycles travel free on the ferry if they are booked the day before.|When do bicycles travel free on the ferry?
Perfume|Flowers|Jasmine is picked before dawn.|Fixatives|Oakmoss keeps a perfume on the skin for hours.|What keeps a perfume on the skin for hours?
Comets|Orbits|Some comets return after thousands of years.|Tails|The straight bluish tail of a comet consists of ionised gas.|What does the straight tail of a comet consist of?
Carpets|Wool|Wool from the highlands is spun by hand.|Knots|A carpet from Tabriz has up to a million knots in a square metre.|How many knots does a carpet from Tabriz have?
Chess|Openings|The king's gambit gives up a pawn.|Endings|A king and two knights cannot force mate against a lone king.|What can two knights not force against a lone king?
Salt|Pans|Sea water evaporates in shallow pans.|Tax|The gabelle was the hated tax on salt in old France.|How was the tax on salt called in France?
Dikes|Clay|Dikes have a core of sand below the clay.|Sheep|Sheep tread the turf of the dike firm and keep it short.|Which animals tread the turf of the dike firm?
Organs|Pipes|The longest pipe measures ten metres.|Bellows|Four men had to tread the bellows of the cathedral organ.|How many men trod the bellows of the cathedral organ?
Coffee|Beans|Beans are roasted for twelve minutes.|Brewing|Water for filter coffee should have ninety-three degrees.|How hot should the water for filter coffee be?
Maps|Scales|A hiking map has the scale of one to twenty-five thousand.|Colours|Contour lines are printed in brown on the sheets of the survey.|In which colour are contour lines printed?
Wolves|Packs|A pack consists of parents and their young.|Howling|A wolf's howl is heard over ten kilometres in open country.|How far is the howl of a wolf heard?
Ropes|Hemp|Hemp is combed until it shines.|Walks|The ropewalk of the harbour was three hundred metres long.|How long was the ropewalk of the harbour?
Stamps|Perforation|Early stamps were cut with scissors.|Errors|On the inverted Jenny the aeroplane flies upside down.|What flies upside down on the inverted Jenny?
Rivers|Springs|The river rises below a limestone wall.|Floods|In the flood of 1784 the water stood above the altar of the chapel.|How high stood the water in the flood of 1784?
Ballet|Shoes|Pointe shoes last for a single evening.|Training|Dancers begin every morning with exercises at the barre.|With what do dancers begin every morning?
Hops|Poles|Hops climb on wires seven metres high.|Drying|Hop cones are dried in the kiln at sixty degrees and pressed into sacks.|At how many degrees are hop cones dried?
Owls|Hearing|The ears of an owl stand at different heights.|Pellets|Owls cough up pellets of fur and bones about ten hours after a meal.|What do owls cough up after a meal?
"""
"""A line for each: subject, first heading, first text, second heading, second text, question about the second text."""


@dataclass(frozen=True)
class Subject:
    """What one document tells. `sections` are headings and texts."""

    name: str
    sections: tuple[tuple[str, str], tuple[str, str]]
    question: str


@dataclass(frozen=True)
class Made:
    """A document of the library. `place` is the metadata by which the chunk of the answer is known."""

    name: str
    kind: str
    content: bytes
    question: str
    place: dict[str, object]


def subjects() -> list[Subject]:
    lines = [line.split("|") for line in SUBJECTS.strip().splitlines()]
    return [Subject(line[0], ((line[1], line[2]), (line[3], line[4])), line[5]) for line in lines]


def library() -> list[Made]:
    """Return two documents of every kind that is read."""
    told = iter(subjects())
    made = []
    for kind, (suffixes, write, placed_by) in _WRITERS.items():
        for suffix in suffixes:
            subject = next(told)
            second = subject.sections[1][0]
            place: dict[str, object] = {"page": 2, "slide": 3}
            shown = {placed_by: place.get(placed_by, second)} if placed_by else {}
            made.append(Made(f"{subject.name.lower()}{suffix}", kind, write(subject), subject.question, shown))
    return made


def _pdf(subject: Subject) -> bytes:
    paper = FPDF()
    paper.set_title(subject.name)
    for heading, text in subject.sections:
        paper.add_page()
        paper.set_font("helvetica", "B", 20)
        paper.multi_cell(0, 12, heading, new_x="LMARGIN", new_y="NEXT")
        paper.set_font("helvetica", size=11)
        paper.multi_cell(0, 6, text, new_x="LMARGIN", new_y="NEXT")
    return bytes(paper.output())


def _table(delimiter: str) -> Callable[[Subject], bytes]:
    def write(subject: Subject) -> bytes:
        file = io.StringIO()
        csv.writer(file, delimiter=delimiter).writerows(
            [("Subject", "Part", "Text"), *((subject.name, *section) for section in subject.sections)]
        )
        return file.getvalue().encode()

    return write


def _code(subject: Subject) -> bytes:
    functions = "\n\n".join(
        f'def tell_of_{heading.lower()}():\n    """{text}"""\n    return None' for heading, text in subject.sections
    )
    return f'"""{subject.name}."""\n\n{functions}\n'.encode()


def _text(subject: Subject) -> bytes:
    """Return a text in UTF-16 for one subject and in Latin-1 for the others."""
    text = "\n\n".join([f"{subject.name} – à propos", *(text for _, text in subject.sections)])
    return text.encode("utf-16") if subject.name < "H" else text.replace("–", ":").encode("latin-1")


def _tables(subject: Subject) -> dict[str, tuple[tuple[str, ...], ...]]:
    return {heading: (("Matter", "Note"), ("General", text)) for heading, text in subject.sections}


def _of(make: Callable[..., bytes], *, titled: bool = True) -> Callable[[Subject], bytes]:
    """Return what has a sample of its kind tell of a subject, by its title and its first heading, which are the same."""
    return lambda subject: make(*[subject.name] * (1 + titled), subject.sections)


_WRITERS: dict[str, tuple[tuple[str, str], Callable[[Subject], bytes], str | None]] = {
    "pdf": ((".pdf", ".PDF"), _pdf, "page"),
    "html": ((".html", ".xhtml"), _of(samples.html_page), "section"),
    "docx": ((".docx", ".docx"), _of(samples.docx_file), "section"),
    "pptx": ((".pptx", ".pptx"), _of(samples.pptx_file), "slide"),
    "xlsx": ((".xlsx", ".xlsx"), lambda each: samples.xlsx_file(each.name, _tables(each)), "sheet"),
    "odt": ((".odt", ".odt"), _of(samples.odt_file, titled=False), "section"),
    "ods": ((".ods", ".ods"), lambda each: samples.ods_file(_tables(each)), "sheet"),
    "odp": ((".odp", ".odp"), _of(samples.odp_file, titled=False), "slide"),
    "epub": ((".epub", ".epub"), _of(samples.epub_file, titled=False), "section"),
    "ipynb": ((".ipynb", ".ipynb"), _of(samples.notebook, titled=False), "section"),
    "email": ((".eml", ".eml"), lambda each: samples.mail(each.name, *(text for _, text in each.sections)), None),
    "mbox": ((".mbox", ".mbox"), lambda each: samples.mailbox(*starmap(samples.mail, each.sections)), "section"),
    "rst": ((".rst", ".rest"), _of(samples.rst, titled=False), "section"),
    "csv": ((".csv", ".csv"), _table(","), None),
    "tsv": ((".tsv", ".tab"), _table("\t"), None),
    "markdown": ((".md", ".markdown"), _of(samples.markdown), "section"),
    "code": ((".py", ".rb"), _code, None),
    "text": ((".txt", ""), _text, None),
}
"""By kind: the suffixes of its two files, what writes one, and the metadata that says where in it a chunk stands."""
