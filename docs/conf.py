"""Build the documentation: `make docs` writes it to build/docs."""

import sys
from pathlib import Path

import troth

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "Troth"
author = "The Troth maintainers"
copyright = author
version = release = troth.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docstrings",  # before napoleon: it sees the docstring first
    "sphinx.ext.napoleon",
    "sources",
    "reference",
]
source_suffix = {
    ".md": "markdown",
    ".rst": "restructuredtext",
    ".ipynb": "notebook",
}
exclude_patterns = ["_ext", "**/.ipynb_checkpoints"]
suppress_warnings = ["misc.highlighting_failure"]  # commands in notebooks
myst_heading_anchors = 4
myst_links_external_new_tab = False

smartquotes = False  # values are quoted as they are typed

# Docstrings are written as Markdown: a name in backticks is code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# Types of Python and of torch are named, not linked: their pages are elsewhere.
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = f"Troth {version}"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
html_domain_indices = False
html_theme_options = {"navigation_with_keys": True}
