"""The words that names are read by: titles, kinship, places, units. English, and general."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DEFINITE: Final = _words("the this that these those")
INDEFINITE: Final = _words("a an one some any another each every")
POSSESSIVE: Final = _words("my your his her its our their whose")
PARTING: Final = _words(
    "north northern south southern east eastern west western central upper lower inner outer new"
    " elder eldest younger youngest another second third fourth fifth former false"
    " greater lesser half undead"
)
"""Lower-case words before a name that make it the name of something else."""
DETERMINERS: Final = DEFINITE | INDEFINITE | POSSESSIVE
PREPOSITIONS: Final = _words(
    "of to for in on at from with by near under beneath over beside behind who which"
)
LINKS: Final = _words("of the and de du des del della di da la le les van von der den zu y ibn bin")

MALE_TITLES: Final = _words(
    "mr mister master sir lord king prince duke baron count earl viscount marquis emperor father"
    " brother uncle monsieur don senor signor herr abbot friar esq esquire grandfather gentleman"
)
FEMALE_TITLES: Final = _words(
    "mrs miss ms mistress lady dame queen princess duchess baroness countess viscountess marquise"
    " empress mother sister aunt madame madam mademoiselle donna senora senorita signora frau"
    " fraulein abbess priestess grandmother ladyship"
)
TITLES: Final = (
    MALE_TITLES
    | FEMALE_TITLES
    | _words(
        "dr doctor professor prof captain general sergeant lieutenant colonel major commander"
        " admiral corporal private marshal chief elder high grand saint st archmage mage wizard"
        " seeker keeper sovereign herald enchanter arcanist expositor foreman guard justice judge"
        " mayor sheriff bishop archbishop cardinal pope reverend priest cleric warden steward"
        " regent chancellor minister ambassador knight squire inspector detective officer"
        " president senator governor baronet cousin honourable honorable old young late poor dear"
        " dearest honest"
    )
)
HIGH: Final = _words("high grand chief")
"""What makes a title of the next word too: 'High Anything Name'."""
TITLE_ENDINGS: Final = ("master", "keeper", "warden", "mage", "priest")
STYLES: Final[Mapping[str, str]] = MappingProxyType(
    {"mr": "mr", "mister": "mr", "monsieur": "mr", "mrs": "mrs", "madame": "mrs", "frau": "mrs"}
    | {"miss": "miss", "mademoiselle": "miss", "fraulein": "miss"}
    | {"sir": "noble", "lord": "noble", "lady": "noble", "dame": "noble"}
)
MALE_WORDS: Final = MALE_TITLES | _words("male man boy son husband widower he him grandson nephew")
FEMALE_WORDS: Final = FEMALE_TITLES | _words(
    "female woman girl daughter wife widow she granddaughter niece"
)
GENERIC: Final = (
    MALE_WORDS
    | FEMALE_WORDS
    | _words(
        "person people child children infant baby orphan parent friend lover companion stranger"
        " servant figure creature being one other others body human elf dwarf halfling gnome orc"
        " entity soldier spouse twin family crowd group place places area areas spot point points"
        " room hall door house home country land region island islands city town village"
        " street road way river lake sea mountain hill forest thing things item items object stuff"
        " piece pieces part parts new old young little first second third last same poor good own"
        " very dear elder eldest younger youngest only former latter such many more several all"
    )
)

NUMERALS: Final[Mapping[str, str]] = MappingProxyType(
    {"ii": "2", "iii": "3", "iv": "4", "vi": "6", "vii": "7", "viii": "8", "ix": "9"}
    | {"first": "1", "second": "2", "third": "3", "fourth": "4", "fifth": "5", "sixth": "6"}
    | {"seventh": "7", "eighth": "8", "ninth": "9", "tenth": "10", "jr": "jr", "junior": "jr"}
    | {"sr": "sr", "senior": "sr"}
)

GENERATIONS: Final = _words("jr sr")

PLACE_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        word: group.split()[0]
        for group in (
            "lake loch lagoon",
            "river stream creek brook",
            "sea ocean gulf bay",
            "mountain mount mt peak range alp",
            "hill hillock ridge",
            "forest wood woodland timberland jungle grove",
            "inn tavern pub alehouse taproom bar hotel hostel",
            "shop store emporium market boutique bookstore smithy",
            "bathhouse spa",
            "city town village hamlet settlement township capital metropolis",
            "kingdom empire realm country nation republic duchy",
            "continent",
            "island isle islet",
            "archipelago",
            "castle keep fort fortress citadel stronghold hold",
            "tower spire",
            "road street lane avenue highway boulevard trail path",
            "temple church cathedral shrine chapel sanctuary abbey minster monastery mosque",
            "mine quarry",
            "house manor residence mansion estate home villa",
            "district quarter ward neighbourhood neighborhood",
            "desert waste wasteland",
            "plane dimension",
            "cave cavern grotto",
            "swamp marsh bog fen",
            "valley vale glen",
            "pass",
            "province county region territory",
        )
        for word in group.split()
    }
)
WHOLE_OF: Final = _words("city town village hamlet island isle continent kingdom empire realm")
"""Place words whose 'type of Name' is Name itself; a bridge or castle of a town is not the town."""
BESIDE_A_TOWN: Final = _words(
    "castle tower temple house district road shop inn cave pass valley province"
)
"""Types that often stand in a place of the same bare name, so the bare name is left alone."""

COMMON_STYLES: Final = frozenset(title for title, style in STYLES.items() if style != "noble")
"""Titles that half the people share, so that sharing one says nothing."""
UNITS: Final = _words(
    "vial flask bottle bag sack pouch box case bundle lb lbs pound pounds oz ounce gallon pint ft"
    " foot feet day per each sheet sq yd block piece pieces"
)
LOTS: Final = _words("set pair suit lot")
ITEM_LINKS: Final = _words("of the and a an for with in to")
ITEM_NOUNS: Final = _words(
    "sword longsword shortsword greatsword blade dagger axe greataxe battleaxe handaxe mace maul"
    " hammer warhammer spear javelin glaive halberd bow longbow shortbow crossbow staff wand rod"
    " cloth shield armor armour mail helm helmet amulet ring crystal gem statuette pistol rifle"
    " musket"
)
