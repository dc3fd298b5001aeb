"""A BM25 lexical index (Robertson and Zaragoza, 2009)."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

K1, B = 1.2, 0.75
"""Term frequency saturation and length normalization, at the usual values."""


class Index:
    """BM25 over a fixed list of documents."""

    def __init__(self, documents: Sequence[str]) -> None:
        counts = [Counter(words_in(document)) for document in documents]
        lengths = [sum(count.values()) for count in counts]
        mean = sum(lengths) / max(1, len(lengths))
        self._weights: dict[str, list[tuple[int, float]]] = defaultdict(list)
        """Word -> (document, weight) of the documents that hold it."""
        rarity = {
            word: math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            for word, holding in Counter(word for count in counts for word in count).items()
        }
        for number, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            for word, times in count.items():
                share = times * (K1 + 1) / (times + K1 * (1 - B + B * length / mean))
                self._weights[word].append((number, rarity[word] * share))

    def best(self, query: str, count: int) -> list[int]:
        """The documents that match best, best first; ties in document order. Empty if no word is found."""
        scores: dict[int, float] = defaultdict(float)
        for word in words_in(query):
            for number, weight in self._weights.get(word, ()):
                scores[number] += weight
        return sorted(scores, key=lambda number: (-scores[number], number))[:count]


def words_in(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
