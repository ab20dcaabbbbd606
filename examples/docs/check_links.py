#!/usr/bin/env python3
"""Checks that all links inside the site lead somewhere: files and anchors, in pages, in the tree and in the search.

    examples/docs/check_links.py build/docs/html

Links to other sites are not followed. A page must load nothing from another site.
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """The anchors of a page, and what it links to and loads."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(values[name])
        if tag in ("a", "area") and values.get("href"):
            self.links.append(values["href"])
        elif tag in ("link", "script", "img", "iframe", "object"):
            target = values.get("href") or values.get("src") or values.get("data")
            if target:
                self.links.append(target)
                self.loaded.append(target)


def links_in_script(path):
    """The pages that a script of the tree or of the search names, relative to its folder."""
    text = path.read_text(encoding="utf-8")
    if path.parent.name == "search":
        return re.findall(r"'(\.\./[^']+\.html(?:#[^']*)?)'", text)
    return re.findall(r'"([^"\s]+\.html(?:#[^"]*)?)"', text)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in sorted(root.rglob("*.html")) if "mathjax" not in path.parts}
    if len(pages) < 50:
        sys.exit(f"{root}: only {len(pages)} pages")
    links = [(path, link) for path, page in pages.items() for link in page.links]
    scripts = [path for path in sorted(root.rglob("*.js")) if "mathjax" not in path.parts]
    links += [(path, link) for path in scripts for link in links_in_script(path)]

    broken = []
    checked = 0
    for path, page in pages.items():
        broken += [f"{path.relative_to(root)}: loads {link}" for link in page.loaded
                   if re.match(r"(https?:)?//", link)]
    for path, link in links:
        parts = urllib.parse.urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        checked += 1
        target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
        anchor = urllib.parse.unquote(parts.fragment)
        if not target.exists():
            broken.append(f"{path.relative_to(root)}: no file {link}")
        elif anchor and target in pages and anchor not in pages[target].anchors:
            broken.append(f"{path.relative_to(root)}: no anchor {link}")
    for line in sorted(set(broken)):
        print(line)
    print(f"{len(pages)} pages, {checked} links, {len(set(broken))} broken")
    sys.exit(1 if broken else 0)


main()
