"""Text as the rules about money and marks compare it; aliases are compared as `_apply` says."""

import re
import unicodedata
from typing import Final

# Characters that show nothing: soft hyphen, joiners, fillers, direction and variation marks.
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)


def fold_text(text: str) -> str:
    """Return `text` without case, width and invisible characters.

    Takes quadratic time on a long run of accents, so callers bound the length first.
    """
    seen = _INVISIBLE.sub("", text)
    # Twice, because folding case can undo the composition that NFKC made.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())
