"""The words of the world: made-up names, cities and countries, real words for the rest. All lower case."""

from __future__ import annotations

from itertools import product


def _join(stems: str, endings: str) -> tuple[str, ...]:
    return tuple(stem + ending for stem, ending in product(stems.split(), endings.split()))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _join("ba de fi go ka lu mi ne", "lan mir nor ra sto vi")
LAST_NAMES = _join("bran crol dask fenn grom holt jask kerr", "ack ell ing ov sen ut")
CITIES = _join("al bren cor dal elm fen gris hul ker lor mar nev", "ford ton wick by")
COUNTRIES = _join("bor cal dun fel gar hol", "avia onia istan eria")

JOBS = _words(
    "actor artist baker banker barber brewer builder butcher captain carver chemist clerk coach cook cooper dancer "
    "dentist diver doctor driver drummer editor farmer fisher florist gardener guard hunter judge juggler lawyer "
    "mason miller miner nurse painter pilot plumber poet potter printer sailor singer smith tailor teacher waiter "
    "weaver"
)
FOODS = _words(
    "almond apple bacon bagel banana barley bean beet bread butter cake carrot cheese cherry chili cocoa corn cream "
    "egg fig garlic ginger grape ham honey jam kale leek lemon lentil lime mango melon mint nut oat olive onion pasta "
    "peach pear pepper plum rice salmon soup tea toast"
)
PETS = _words(
    "ant badger bat bear beaver bee boar camel cat cobra cow crane crow deer dog donkey dove eagle eel falcon ferret "
    "finch fox frog gecko goat goose hare hawk hen heron horse lamb lion lizard llama mole moose mouse mule newt otter "
    "owl parrot pig pony rabbit swan"
)
TOOLS = _words(
    "anchor axe basket bell brush bucket candle chisel drum hammer knife ladder lamp lens mirror needle net pen pump "
    "rope saw scale shovel wheel"
)
SPARE_WORDS = _words("minus subtract less difference units tens carry borrow")
"""Words that are seen in lists only: a task may give them a meaning that the lineage has not learned."""

LIST_WORDS = JOBS + FOODS + PETS + TOOLS + SPARE_WORDS
"""What the format skill's lists are made of."""
