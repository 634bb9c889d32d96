"""How the documentation is built (packaging/build_docs.py, `make docs`)."""

project = "Draftlight"
author = "The Draftlight authors"
copyright = author
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "Draftlight"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_favicon = "app-icon.svg"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# No typefaces or scripts from elsewhere: reading the documentation tells nobody.
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
