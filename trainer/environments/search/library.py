"""The tools of the search environment. Every public method is a tool."""

from typing import Any

from trainer.environments.search.corpus import Corpus
from trainer.environments.tools import ToolError

HITS = 4


class Library:
    """One corpus, the pages that were read, and the answer once it's given."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self.read: set[str] = set()
        self.answer: str | None = None

    def search(self, query: str) -> list[dict[str, str]]:
        """Find pages that hold the words of a query, best first.

        Args:
            query: A few words, such as a name.
        """
        pages = self._corpus.search(query, HITS)
        if not pages:
            raise ToolError(f"no page holds a word of {query!r}")
        return [{"title": page.title, "page": page.id} for page in pages]

    def lookup(self, page: str) -> dict[str, Any]:
        """Read a page.

        Args:
            page: The page's id, as search gives it.
        """
        if page not in self._corpus.pages:
            raise ToolError(f"there is no page {page!r}")
        self.read.add(page)
        entry = self._corpus.pages[page]
        return {"title": entry.title, "text": entry.text}

    def finish(self, answer: str) -> dict[str, str]:
        """Give the answer. This ends the search.

        Args:
            answer: The answer alone: a name, a year or a word.
        """
        self.answer = answer
        return {"answered": answer}
