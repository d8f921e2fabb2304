"""Results as HTML pages: a self-contained file each. They need Jinja2: ``pip install "jmdp[report]"``."""
