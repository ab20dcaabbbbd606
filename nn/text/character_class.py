#!/usr/bin/env python3
"""Writes character_class.cpp, the classes of Unicode 16.

    pip install tokenizers==0.23.3
    python3 nn/text/character_class.py && clang-format-19 -i nn/text/character_class.cpp

Each code point has the class that Hugging Face's tokenizers give it, so that they cut texts into the same pieces.
"""

import pathlib

from tokenizers.pre_tokenizers import ByteLevel

CODES = 0x110000
SURROGATES = range(0xD800, 0xE000)
pieces = ByteLevel(add_prefix_space=False, use_regex=True)


def class_of(code):
    """The class of a code point: it forms one piece with a preceding character of the same class, and only then."""
    if code in SURROGATES:
        return "other"
    for example, name in {"a": "letter", "1": "number", "!": "other"}.items():
        if len(pieces.pre_tokenize_str(example + chr(code))) == 1:
            return name
    return "blank"


def main():
    ranges = []
    for code in range(CODES):
        kind = class_of(code)
        if kind == "other":
            continue
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == kind:
            ranges[-1][1] = code
        else:
            ranges.append([code, code, kind])
    rows = ",".join(f"{{0x{first:X}, 0x{last:X}, {kind}}}" for first, last, kind in ranges)
    path = pathlib.Path(__file__).with_suffix(".cpp")
    template = path.read_text()
    begin = template.index("{{0x") + 1
    path.write_text(template[:begin] + rows + template[template.index("}};", begin) + 1:])
    print(f"{len(ranges)} ranges")


if __name__ == "__main__":
    main()
