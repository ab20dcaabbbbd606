#!/usr/bin/env python3
"""Lets the site's search find names by each of their words: `norm` finds layer_norm, and `dropout` a chapter's title.

    examples/docs/search_words.py build/docs/html

Doxygen's search compares the typed text with the beginnings of names. Its data are lists of names by their first
character, `['layer_5fnorm_3',['layer_norm',…]]`, whose keys have _5f for "_". This script adds each name again for each
of its words: the key is the rest of the name from that word on.
"""

import html
import pathlib
import re
import sys

ENTRY = re.compile(r"""^  \['[^']+',(?P<rest>\[(?P<quote>['"])(?P<name>.*?)(?P=quote),.*\])\],?$""")
WORD = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=[a-z0-9])(?=[A-Z]))(?=[A-Za-z0-9]{3})")  # starts of words of 3+ letters


def key_of(text):
    """The key of a name, as search.js computes it from the typed text."""
    return "".join(c if c.isalnum() or ord(c) > 127 else f"_{ord(c):02x}" for c in text.lower())


def main():
    search = pathlib.Path(sys.argv[1]) / "search"
    sections = re.search(r'^  0: "([^"]*)"', (search / "searchdata.js").read_text(encoding="utf-8"), re.MULTILINE)
    if not sections:
        sys.exit(f"{search / 'searchdata.js'}: no section 0")
    files = {first: search / f"all_{number:x}.js" for number, first in enumerate(sections.group(1))}
    lists = {first: path.read_text(encoding="utf-8").splitlines()[2:-1] for first, path in files.items()}
    added = {first: [] for first in lists}
    for line in (line for lines in lists.values() for line in lines):
        entry = ENTRY.match(line)
        if not entry:
            sys.exit(f"{search}: not an entry of Doxygen's search: {line}")
        name = html.unescape(entry["name"])
        words = set()
        for begin in WORD.finditer(name):
            end = name[begin.start():].lower()
            word = re.match(r"[a-z0-9]+", end).group()
            if begin.start() > 0 and end[0] in added and word not in words:
                added[end[0]].append((key_of(end), entry["rest"]))
            words.add(word)
    for first, path in files.items():
        entries = [line.rstrip(",") for line in lists[first]]
        entries += [f"  ['{key}_{number}',{rest}]" for number, (key, rest) in enumerate(sorted(added[first]), 100000)]
        path.write_text("var searchData=\n[\n" + ",\n".join(entries) + "\n];\n", encoding="utf-8")
    print(f"{sum(map(len, lists.values()))} names and {sum(map(len, added.values()))} of their words to search for")


main()
