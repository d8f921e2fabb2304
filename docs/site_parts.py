"""What the site adds to the pages: links from names to the reference, tables for phones, and text for programs."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

from sphinx.util.osutil import relative_uri
from sphinx.writers.text import TextTranslator

import jmdp

ADDRESS = "https://jmdp.readthedocs.io/en/stable"
SUMMARY = (
    "jmdp is a Python library that compares policies, actions, whole simulations or recorded scores under shared "
    "randomness (common random numbers): mean gap, how often one is better, worst cases, with intervals that allow "
    "stopping early; exact results from tables of probabilities."
)

# ------------------------------------------------------------------ names as links to the reference


class Names:
    """Where public names are documented."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self.objects = dict(objects)
        self.short = {name: f"jmdp.{name}" for name in jmdp.__all__}
        kinds = ("class", "exception", "function")
        for name, entry in self.objects.items():
            last = name.rpartition(".")[2]
            if entry.objtype in kinds and last[:1].isupper():
                self.short.setdefault(last, name)

    @cache  # noqa: B019 (one object a build)
    def place(self, written: str) -> tuple[str, str] | None:
        """Page and anchor of a name as it is written in a text: ``compare``, ``jmdp.compare(…)``, ``Gap.mean``."""
        name = re.fullmatch(r"([A-Za-z_][\w.]*?)(\(.*\))?", unescape(written), re.S)
        if name is None:
            return None
        first, dot, rest = name[1].partition(".")
        full = name[1] if first == "jmdp" else self.short.get(first, "") + dot + rest
        entry = self.objects.get(full)
        if entry is None or full == "jmdp" or (entry.objtype == "module" and first != "jmdp"):
            return None  # `models` and `results` are words
        return entry.docname, entry.node_id


_CODE = re.compile(
    r'<a\b.*?</a>|<h[1-6]\b.*?</h[1-6]>|<code class="docutils literal notranslate">(?P<words>.*?)</code>'
    r'|(?P<call><span class="n">jmdp</span>(?:<span class="o">\.</span><span class="n">\w+</span>)+)',
    re.S,
)


def linked(body: str, names: Names, page: str, address: Callable[[str], str]) -> str:
    """The body of a page in which public names lead to their reference: in text, and calls in code."""

    def link(found: re.Match[str]) -> str:
        parts = found[0]
        if found["words"] is not None:
            place = names.place(re.sub(r"<[^>]*>", "", found["words"]))
        elif found["call"] is not None:
            place, rest = names.place(re.sub(r"<[^>]*>", "", parts)), ""
            while place is None and parts.count('class="n"') > 2:  # jmdp.Local.policy_luck: the longest that is known
                parts, cut, last = parts.rpartition('<span class="o">.</span>')
                rest = cut + last + rest
                place = names.place(re.sub(r"<[^>]*>", "", parts))
            return found[0] if place is None else f"{_anchor(parts, place)}{rest}"
        else:
            return parts
        return parts if place is None else _anchor(parts, place)

    def _anchor(parts: str, place: tuple[str, str]) -> str:
        target = "" if place[0] == page else relative_uri(address(page), address(place[0]))
        return f'<a class="name" href="{target}#{place[1]}">{parts}</a>'

    return _CODE.sub(link, body)


def names_table() -> str:
    """All names of the package with their first sentences, as a table in Markdown."""
    rows = ["| name | what it is |", "|---|---|"]
    for name in sorted(jmdp.__all__, key=str.lower):
        thing = getattr(jmdp, name)
        if not inspect.ismodule(thing):
            words = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            rows.append(f"| `{name}` | {words} |")
    modules = sorted(name for name in jmdp.__all__ if inspect.ismodule(getattr(jmdp, name)))
    for name in modules:
        words = (inspect.getdoc(importlib.import_module(f"jmdp.{name}")) or "").split("\n\n")[0].replace("\n", " ")
        rows.append(f"| `jmdp.{name}` | {words} |")
    return "\n".join(rows)


# ------------------------------------------------------------------ tables on phones


def with_columns(body: str) -> str:
    """Cells of tables know the title of their column, which phones show before each cell."""

    def table(found: re.Match[str]) -> str:
        head, _, rows = found[0].partition("</thead>")
        titles = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<th\b[^>]*>(.*?)</th>", head, re.S)]

        def row(line: re.Match[str]) -> str:
            columns = iter(titles)
            return re.sub(r"<td\b", lambda _: f'<td data-column="{next(columns, "")}"', line[0])

        return head + "</thead>" + re.sub(r"<tr\b.*?</tr>", row, rows, flags=re.S)

    return re.sub(r'<table class="[^"]*\btable\b[^"]*">\s*<thead>.*?</table>', table, body, flags=re.S)


def with_words(body: str) -> str:
    """Printed sentences, unlike printed tables, may be broken into lines."""

    def mark(found: re.Match[str]) -> str:
        printed = unescape(re.sub(r"<[^>]*>", "", found[2]))
        table = re.search(r"\S {2,}\S", printed) is not None
        return found[0] if table else f"{found[1].replace('highlight-text', 'highlight-text words')}{found[2]}"

    return re.sub(r'(<div class="highlight-text notranslate">)(.*?</pre>)', mark, body, flags=re.S)


# ------------------------------------------------------------------ text for programs


class Text(TextTranslator):
    """A page as text: links keep their address."""

    def visit_reference(self, node: Any) -> None:
        """Nothing before the words."""

    def depart_reference(self, node: Any) -> None:
        """Write an address outside the site after the words."""
        if str(node.get("refuri", "")).startswith("http"):
            self.add_text(f" <{node['refuri']}>")

    def visit_math(self, node: Any) -> None:
        """A formula as it is written."""
        self.add_text(f"${node.astext()}$")

    def depart_math(self, node: Any) -> None:
        """Write nothing more."""

    def unknown_visit(self, node: Any) -> None:
        """Write what is in a node that has no text form."""

    unknown_departure = unknown_visit


def text_of(doctree: Any, builder: Any) -> str:
    """A page as plain text."""
    translator = Text(doctree, builder)
    doctree.walkabout(translator)
    return str(translator.body)


def llms(pages: Mapping[str, tuple[str, str]], sections: Mapping[str, list[str]]) -> str:
    """The list of all pages for language models: title, first words and address of each page's text."""
    lines = ["# jmdp", "", f"> {SUMMARY}", "", "Each address is a page of the documentation as plain text.", ""]
    for section, names in sections.items():
        lines += [f"## {section}", ""]
        for name in names:
            title, words = pages[name]
            lines.append(f"- [{title}]({ADDRESS}/{name}.txt)" + f": {words}" * bool(words))
        lines.append("")
    return "\n".join(lines)


def first_words(doctree: Any) -> str:
    """The first sentence of a page."""
    for paragraph in doctree.findall(lambda node: node.tagname == "paragraph"):
        words = " ".join(paragraph.astext().split())
        if len(words) > 40 and not words.startswith("<"):  # neither the text of a picture nor a link
            return re.split(r"(?<=[.?!]) ", words)[0]
    return ""


def write_text(path: Path, text: str) -> None:
    """Write a file of the site."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
