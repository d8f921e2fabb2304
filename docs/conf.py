"""The site: ``python -m sphinx -W --keep-going -n -b html docs docs/_build/html``. No internet is needed."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.pycode import parser
from sphinx.util.logging import getLogger

import jmdp

sys.path.insert(0, str(Path(__file__).parent))
import site_parts
import write_notebooks

project = "jmdp"
author = "The jmdp developers"
copyright = f"2026, {author}"  # noqa: A001 (Sphinx's name)
version = release = jmdp.__version__

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "benchmark_results", "reproduction_results"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3  # [words](page.md#heading)

# Notebooks run at each build: what they show is what the package does today.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # whatever the caller's is

# Docstrings write names in single backticks. What the reference does not have stays a word, see _plain.
default_role = "py:obj"
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
TYPES = ("Booleans", "Floats", "Integers", "Label", "PolicyLike", "SimulatorLike", "StartsLike")
autodoc_type_aliases = {name: name for name in TYPES}
parser.comment_re = re.compile(
    r"^(?:#|\s*#:) ?((?!noqa|type:|fmt:).*)\r?\n?$"
)  # ``mean: Floats  # [S, A]`` explains a field
numpydoc_show_class_members = False  # autodoc shows them, once
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
nitpick_ignore_regex = [("py:obj", r"jmdp\.(methods|kernels)\..*")]  # where to read on in the source

html_theme = "pydata_sphinx_theme"
html_title = "jmdp"
html_static_path = ["_static", "images/same_gusts.svg", "images/same_gusts_still.svg"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": []}
html_theme_options = {"footer_start": ["copyright"], "footer_end": [], "show_toc_level": 2}
html_math_renderer = "mathml"


def _mathml(*, block):
    """Formulas as MathML, which browsers show without a script."""

    def visit(translator, node):
        formula = node.astext().replace(r"\dots", r"\ldots")  # two things that docutils cannot read
        formula = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", formula)
        try:
            drawn = tex2mathml(formula, as_block=block)
            translator.body.append(drawn if block else _in_pieces(drawn))
        except MathError as error:
            getLogger(__name__).warning("%s in %s", error, formula, location=node)
        raise nodes.SkipNode

    return visit, None


def _in_pieces(drawn):
    """A long formula within a line may go on in the next line after a relation: browsers do not break MathML."""
    opening, *parts = re.split(r"\n(?=  <|</math>)", drawn)  # the parts of the formula that are not within others
    if len(parts) <= 16:
        return drawn
    depth, pieces = 0, [opening]
    for part in parts:
        depth += len(re.findall(r">[(\[{]<", part)) - len(re.findall(r">[)\]}]<", part))
        pieces.append(part)
        if depth == 0 and re.fullmatch(r"  <mo>[=≤≥]</mo>", part):
            pieces.append(f"</math><wbr>{opening}")
    return "\n".join(pieces)


def _plain(app, env, node, contnode):
    """Names that are not ours, and types of annotations that are not public, are words and not links."""
    ours = node["reftarget"].startswith("jmdp.") and node["reftype"] != "class"
    return None if node.get("refdomain") != "py" or ours else contnode


def _docstring(app, what, name, obj, options, lines):
    """In our docstrings |x| is a size, and `x`² a power."""
    sizes = [re.sub(r"\|(\w[^|`]*)\|", r"\\|\1\\|", line) for line in lines]
    lines[:] = [re.sub(r"`(?=[²³])", r"`\\ ", line) for line in sizes]


def _signature(app, what, name, obj, options, signature, returns):
    """Aliases by their names also where they are part of a type, and ArrayLike without what NumPy makes of it."""
    array_like = r"~?[\w.]*_Buffer \| .*?_NestedSequence\[complex \| bytes \| str\]"
    plain = [text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in (signature, returns)]
    return tuple(text and re.sub(array_like, "ArrayLike", text) for text in plain)


def _long_names(app, name, template, context, doctree):
    """Long names of files and tests may break after a slash or an underscore; on a phone they must."""
    if "body" in context:
        long = r'(?<=<span class="pre">)[^<]{20,}(?=</span>)'
        context["body"] = re.sub(long, lambda found: re.sub(r"([/_]+)", r"\1<wbr>", found[0]), context["body"])


_names = []  # the public ones, when the first page is written
_pages = {}  # title and first words of each


def _finish_page(app, name, template, context, doctree):
    """Names lead to the reference, tables fit phones, and each page is also plain text."""
    if doctree is None:
        return
    if not _names:
        _names.append(site_parts.Names(app.env.domaindata["py"]["objects"]))
    body = site_parts.linked(context["body"], _names[0], name, app.builder.get_target_uri)
    text = site_parts.text_of(doctree, app.builder)
    site_parts.write_text(Path(app.outdir) / f"{name}.txt", text)
    _pages[name] = app.env.titles[name].astext(), site_parts.first_words(doctree)
    here = f'<p class="as-text"><a href="{name.rpartition("/")[2]}.txt">This page as plain text</a></p>'
    context["body"] = site_parts.with_words(site_parts.with_columns(body)) + here


def _list_pages(app, error):
    """llms.txt, in the order of the navigation."""
    if error is None and app.builder.format == "html":
        for name, title in app.env.titles.items():  # pages that this build did not write again
            _pages.setdefault(name, (title.astext(), ""))
        below = {top: [top, *app.env.toctree_includes.get(top, [])] for top in app.env.toctree_includes["index"]}
        sections = {_pages[top][0]: pages for top, pages in below.items()}
        site_parts.write_text(Path(app.outdir) / "llms.txt", site_parts.llms(_pages, sections))


def _lists(app, name, source):
    """The table of all names on the first page of the reference, and how-to pages that are not listed."""
    if name == "api/index":
        source[0] = source[0].replace("% all names", site_parts.names_table())
    if name == "guides":
        pages = [f"howto/{page.stem}" for page in sorted((Path(__file__).parent / "howto").glob("*.md"))]
        listed = source[0].splitlines()
        source[0] = source[0].replace("% all others", "\n".join(page for page in pages if page not in listed))


def _write_notebooks(app):
    """Tutorials as notebooks, beside their pages."""
    if app.builder.format == "html":
        write_notebooks.write(Path(app.outdir) / "tutorials")


def _link_notebooks(app, name, source):
    """Links to them, under the title of a tutorial and on its card; the sources can be read without."""
    tutorials = [page.stem for page in write_notebooks.TUTORIALS]
    link = '<a href="{}.ipynb" download>{}</a>'
    if name == "tutorials/index":
        for tutorial in tutorials:
            title = f"({tutorial}.md)**\n"
            source[0] = source[0].replace(title, f"{title}\n{link.format(tutorial, 'notebook')}\n")
    elif name.removeprefix("tutorials/") in tutorials:
        under = rf"\1\n{link.format(name.removeprefix('tutorials/'), 'Download this tutorial as a notebook')}\n"
        source[0] = re.sub(r"^(# .*\n)", under, source[0], count=1, flags=re.MULTILINE)


def setup(app):
    """What settings cannot say."""
    app.connect("builder-inited", _write_notebooks)
    app.connect("html-page-context", _finish_page)
    app.connect("html-page-context", _long_names)
    app.connect("build-finished", _list_pages)
    app.connect("source-read", _lists)
    app.connect("source-read", _link_notebooks)
    app.add_html_math_renderer("mathml", inline_renderers=_mathml(block=False), block_renderers=_mathml(block=True))
    app.connect("missing-reference", _plain)
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-process-signature", _signature)
