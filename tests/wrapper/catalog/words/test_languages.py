"""Words are stemmed by the rules of their document's language, and a question finds them whatever language it is in."""

import pytest

from schemas.words.stems import DEFAULT, LANGUAGES, Stemmer
from tests.wrapper.catalog.conftest import SQLITE
from tests.wrapper.documents import add, create, ids_found, numbered
from wrapper.catalog.words.languages import language_of
from wrapper.catalog.words.merging import WordMerging

TEXTS = {
    "en": "The backups of all databases are made every night and kept for thirty days in another building.",
    "de": "Die Sicherungen aller Datenbanken werden jede Nacht angefertigt und dreißig Tage lang aufbewahrt.",
    "fr": "Les sauvegardes de toutes les bases de données sont faites chaque nuit et conservées pendant trente jours.",
    "es": "Las copias de seguridad de todas las bases de datos se hacen cada noche y se guardan durante treinta días.",
    "it": "Le copie di tutte le basi di dati vengono fatte ogni notte e conservate per trenta giorni nell'altro edificio.",
    "pt": "As cópias de segurança de todas as bases de dados são feitas todas as noites e guardadas por trinta dias.",
    "nl": "De reservekopieën van alle databanken worden elke nacht gemaakt en dertig dagen in een ander gebouw bewaard.",
    "sv": "Säkerhetskopior av alla databaser görs varje natt och sparas i trettio dagar i en annan byggnad.",
    "pl": "Kopie zapasowe wszystkich baz danych są tworzone każdej nocy i przechowywane przez trzydzieści dni.",
    "fi": "Kaikkien tietokantojen varmuuskopiot tehdään joka yö ja niitä säilytetään kolmekymmentä päivää.",
    "hu": "Minden adatbázisról éjszakánként biztonsági másolat készül, amelyet harminc napig őriznek meg.",
    "tr": "Tüm veritabanlarının yedekleri her gece alınır ve otuz gün boyunca başka bir binada saklanır.",
}
FORMS = {
    "de": ("Häuser mit Schlüsseln für die Räume und Straßen", ["Haus", "Schlüssel", "Raum", "strasse", "STRASSE"]),
    "fr": ("Les opérations sont sauvegardées dans les journaux", ["opération", "sauvegarder", "journal"]),
    "es": ("Las operaciones configuradas rápidamente", ["operación", "operacion", "configurar"]),
    "it": ("Le operazioni nelle città", ["operazione", "citta"]),
    "pt": ("As operações das cópias", ["operação", "cópia"]),
    "nl": ("De gebruikers hebben boeken", ["gebruiker", "boek"]),
    "sv": ("Användarna har säkerhetskopior", ["användare", "säkerhetskopia"]),
    "da": ("Brugerne har bøgerne", ["bruger", "bog"][:1]),
    "no": ("Bilene har dører", ["bil", "dør"]),
    "ru": ("Резервные копии хранятся в файлах", ["резервная копия", "файл"]),
    "en": ("Running generators", ["run", "generator"]),
}


@pytest.fixture
def search(catalog):
    """`search(documents, query, **metadata of the collection)`: the numbers of the documents found, best first. A
    document is a text, or a text and its metadata."""

    def search_in(documents, query, **metadata):
        name = f"docs-{len(searched)}"
        searched.append(name)
        pairs = [(each, {}) if isinstance(each, str) else each for each in documents]
        create(catalog, name, metadata=metadata)
        add(catalog, name, numbered(len(pairs), ""), [text for text, _ in pairs], [each for _, each in pairs])
        return [int(each) for each in ids_found(catalog, name, query)]

    searched: list[str] = []
    return search_in


def test_a_sentence_tells_its_language():
    assert {language: language_of(text, {}, {}) for language, text in TEXTS.items()} == {each: each for each in TEXTS}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def get_name(self):\n    return self._name if self._name is not None else default_name()",
        "SELECT id, name FROM users WHERE age > 3 ORDER BY name LIMIT 10",
        "2024-01-05 12:00:01 ERROR 500 GET /api/v1/users 12ms",
        "日本語の文章です。パスワードを設定します。",
        "Резервные копии хранятся тридцать дней.",
    ],
)
def test_what_tells_no_language_in_latin_letters_is_taken_for_english(text):
    assert language_of(text, {}, {}) == DEFAULT


@pytest.mark.parametrize(
    ("own", "collection", "language"),
    [
        ("de-CH", "fr", "de"),
        ("pt_BR", None, "pt"),
        ("nb", None, "no"),
        (None, "nn-NO", "no"),
        ("ja", "xx", "it"),
        (7, ["de"], "it"),
    ],
)
def test_what_the_metadata_say_comes_before_what_the_text_shows(own, collection, language):
    assert language_of(TEXTS["it"], {"language": own}, {"language": collection}) == language


@SQLITE
def test_a_word_is_found_in_its_other_forms_by_the_rules_of_the_documents_or_the_collections_language(search):
    for language, (text, queries) in FORMS.items():
        for query in queries:
            assert search(["nothing to see here", (text, {"language": language})], query) == [1], query
    assert search(["Häuser"], "Haus", language="de") == [0]
    assert search(["Häuser"], "Haus") == []


def test_documents_of_several_languages_are_found_in_one_collection(search):
    texts = list(TEXTS.values())
    assert search(texts, "database backup")[0] == list(TEXTS).index("en")
    assert search(texts, "Datenbank Sicherung")[0] == list(TEXTS).index("de")
    assert search(texts, "sauvegarde")[0] == list(TEXTS).index("fr")
    assert search(texts, "copia de seguridad")[0] == list(TEXTS).index("es")


@SQLITE
def test_stop_words_are_those_of_the_language_of_the_question(search):
    german = [
        ("Das war der Krieg und die Ursache", {"language": "de"}),
        ("Der war da und das war er", {"language": "de"}),
    ]
    english = [("The war of independence", {"language": "en"}), ("He was there of the other", {"language": "en"})]
    assert search([*german, *english], "Was war die Ursache des Kriegs?") == [0]
    assert 2 in search([*german, *english], "the war of independence")
    assert 3 not in search([*german, *english], "the war of independence")


OTHER_SCRIPTS = {
    "水道の水を止める弁は台所の下にあります": ["水", "台所", "弁はどこ", "水道の弁"],
    "ﾊﾟｽﾜｰﾄﾞの再設定": ["パスワード", "再設定"],
    "비밀번호를 다시 설정하는 방법": ["비밀번호", "비밀번호 설정", "방법은"],
    "วิธีตั้งรหัสผ่านใหม่": ["รหัสผ่าน", "ตั้งรหัสผ่าน"],
    "iPhoneの設定": ["iphone", "設定", "iPhone設定"],
}


@SQLITE
def test_words_of_other_scripts_are_found_inside_sentences(search):
    for text, queries in OTHER_SCRIPTS.items():
        for query in queries:
            assert search(["何もない文章", "nothing to see", text], query)[:1] == [2], query


@pytest.mark.parametrize(
    ("query", "first", "found"),
    [("京都", 0, {0, 1}), ('"東京都"', 1, {0, 1}), ('"京都の"', 0, {0, 1}), ("都", 2, {0, 1, 2})],
)
@SQLITE
def test_phrases_and_single_letters_of_scripts_without_spaces(search, query, first, found):
    others = ["nothing to see"] * 8
    answer = search(["京都の寺", "東京都庁", "都", "大阪", *others], query)
    assert (answer[0], set(answer)) == (first, found)


def test_segments_of_one_language_are_merged_with_each_other_alone(search, catalog):
    texts = ["Häuser", "houses"]
    search(texts, "x")

    for number in range(4):
        for language, text in zip(("de", "en"), texts, strict=True):
            add(catalog, "docs-0", [f"{language}{number}"], [text], [{"language": language}])
    ticks = iter(range(0, 10_000, 100))
    merging = WordMerging(catalog, lambda: float(next(ticks)), merged_at_once=2)
    while merging.step():
        pass
    with catalog.read() as transaction:
        stored = transaction.rows("SELECT language, documents FROM word_segments ORDER BY language")
    assert stored == [("de", 4), ("en", 6)]
    assert set(ids_found(catalog, "docs-0", "Haus")) == {"de0", "de1", "de2", "de3"}


def test_every_language_has_a_stemmer():
    stemmer = Stemmer()
    for language in (DEFAULT, *LANGUAGES):
        assert all(stemmer.stems(["abcdefgs", "naïve", "東京", "копии", "x" * 500], language))
