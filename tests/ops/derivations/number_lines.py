#!/usr/bin/env python3
"""Writes the numbers of the lines of code that the pages of derivations quote, after the code has moved.

    tests/ops/derivations/number_lines.py    # from anywhere

A quote that is in no line of its file, or in several, is printed and left as it is: the page must be read again.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
QUOTE = re.compile(r"`([\w/]+\.(?:cpp|h)):\d+`(\s+)`([^`]+)`")

unclear = 0


def numbered(match):
    global unclear
    file, space, code = match.groups()
    places = [i for i, line in enumerate((ROOT / file).read_text().split("\n"), 1) if code in line]
    if len(places) == 1:
        return f"`{file}:{places[0]}`{space}`{code}`"
    unclear += 1
    print(f"{file}: {len(places)} lines have `{code}`")
    return match.group(0)


for page in sorted((ROOT / "ops").rglob("*_gradient.md")):
    old = page.read_text()
    new = QUOTE.sub(numbered, old)
    if new != old:
        page.write_text(new)
        print(f"{page.relative_to(ROOT)}: numbered")
sys.exit(1 if unclear else 0)
