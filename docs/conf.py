"""Settings of the documentation site."""

import warnings

import braindive

project = "braindive"
author = "The braindive developers"
copyright = "2026, The braindive developers"  # noqa: A001
version = release = braindive.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx-mathjax-offline",  # equations without a network
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
autosummary_generate = True
numpydoc_show_class_members = False
exclude_patterns = ["_build"]
nitpicky = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    # In the order of their numbers, from the first fit on.
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

html_theme = "pydata_sphinx_theme"
html_title = "braindive"
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False}
html_sidebars = {"**": ["sidebar-nav-bs"]}
