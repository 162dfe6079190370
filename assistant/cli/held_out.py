"""Source files that no draft head was trained on, for the benches that need such: the projects that training holds
out, where they were fetched, else Python of the standard library.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from assistant.bench import sources
from assistant.bench.keystrokes import Text
from assistant.training import corpus


def texts(language: str, seed: int) -> Iterator[Text]:
    """The files of a language, shuffled by `seed`, project by project in turn; none when there are none."""
    files = [file for file in corpus.files(corpus.default_folder(), held_out=True) if file.language == language]
    for file in itertools.islice(corpus.sample(files, seed), len(files)):
        yield Text(language, f"{file.project}/{file.path}", file.read())
    if not files and language == "python":
        for source in sources.drawn((sources.STDLIB,), seed):
            yield Text(language, source.path, source.text)
