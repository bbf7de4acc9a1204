"""Settings of the documentation site; `make docs` first runs generate.py, which writes reference/generated/."""

project = "HPC-AI Bench"
author = "HPC-AI Bench maintainers"
copyright = "HPC-AI Bench maintainers, Apache License 2.0"  # noqa: A001  the name is Sphinx's
extensions = ["myst_parser"]
exclude_patterns = ["_build", "requirements.txt"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# Shell blocks may hold … for what the reader fills in: no lexer has to agree.
highlight_language = "none"
html_theme = "furo"
html_title = "HPC-AI Bench"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sourcelink = False
html_copy_source = False
