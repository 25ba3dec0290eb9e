"""The Sphinx extension behind the book: three editions from one notebook, no kernel, no network.

Each concern has its own module; `setup` connects them. `python -m attnbook.book` builds the whole site.

| module | concern |
|---|---|
| `language` | which cells a page shows; anchors that all editions share |
| `parallel` | the parallel edition: each Chinese passage with its English partner |
| `execution` | running notebooks once for both languages; errors that name the cell |
| `strings` | titles, captions and the theme's words in the page's language |
| `typography` | no line begins with the punctuation after a formula |
| `assets` | style sheet, scripts and MathJax from this machine, nothing from another host |
| `widgets` | anywidgets that run in the page without a kernel |
| `plotly` | figures that load plotly.js only when they come into view |
| `search` | finding Chinese words |
| `pages` | around the text: language switch, download, launch links; head and foot |
| `about` | version and commit that a page was made from |
| `notebooks` | one notebook per language for Colab and Jupyter |
| `exercises` | all exercises on one page, with room to write |
| `repository` | everything that depends on the repository's address |
| `sharing`, `styles` | what the editions have in common is in the site once, without what no page uses |
| `landing`, `sitemap` | the first page, the one for wrong addresses, the list of pages for search engines |
| `links`, `build` | checking links, building all editions |
| `publish` | what publishing uploads: the site with the wheel, the branch of notebooks |
| `pdf` | one PDF for each language, printed from the built pages |
| `bilingual`, `glossary` | checks that both languages say the same |
| `terms` | the glossary as a page |
"""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

from . import (
    assets,
    citations,
    execution,
    exercises,
    language,
    notebooks,
    pages,
    parallel,
    plotly,
    search,
    strings,
    terms,
    typography,
    widgets,
)

HERE = Path(__file__).parent


def configure(app: Sphinx, config: Config) -> None:
    """Event `config-inited`: settle the language and everything that follows from it."""
    config.attnbook_language = language.current_language()
    config.language = language.SPHINX_LANGUAGE[config.attnbook_language]
    # Jupyter Book turns every script below a configured static folder into a script of every page, so ours is
    # added after it has looked.
    config.html_static_path.append(str(HERE / "static"))
    config.templates_path.insert(0, str(HERE / "templates"))
    pages.configure(config)
    # The page's menu is ours; the theme would make links of its own, and stop where there is no repository.
    config.attnbook_hubs = config.html_theme_options.pop("launch_buttons", {})
    strings.configure(config)
    search.configure(app, config)
    citations.configure(config)
    execution.configure(app, config)
    assets.configure(app, config)


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's entry point. Listed before the themes, whose words are then loaded in the right language."""
    app.config.language = language.SPHINX_LANGUAGE[language.current_language()]
    app._init_i18n()  # again, now that the language is known
    app.add_config_value("attnbook_language", "zh", "env")
    # The languages that are built side by side; the language switch is shown if there is more than one.
    app.add_config_value("attnbook_editions", [], "html")
    app.add_config_value("attnbook_cache_folder", "", "html")  # executed notebooks, if a site build chose it
    app.add_config_value(
        "comments_config", {}, "html"
    )  # Jupyter Book sets it for an extension that we leave out
    app.add_config_value("attnbook_notebooks_branch", "notebooks", "html")
    app.add_config_value("attnbook_hubs", {}, "html")  # where notebooks run besides Colab
    app.add_config_value(
        "attnbook_solutions", True, "env"
    )  # False: a teacher publishes the book without them
    # After sphinx_external_toc (900), which reads _toc.yml.
    app.connect("config-inited", configure, priority=950)
    app.connect("env-before-read-docs", execution.run_notebooks)
    app.connect("source-read", exercises.read_source, priority=400)  # before one language is chosen
    app.connect("source-read", language.read_source)
    app.add_directive("terms", terms.Terms)
    app.add_transform(parallel.PairPassages)
    app.add_transform(language.AnchorHeadings)
    app.add_post_transform(parallel.NameHeadingsOnce)
    app.add_transform(strings.CellPrompts)
    app.add_transform(strings.AdmonitionTitles)
    app.add_transform(typography.KeepPunctuation)
    app.connect("html-page-context", pages.complete_context, priority=400)  # before the theme
    app.connect("html-page-context", assets.add_save_script)
    app.connect("html-page-context", assets.postpone_scripts, priority=900)
    app.connect("html-page-context", widgets.move_out, priority=900)
    app.connect("html-page-context", plotly.count_figures, priority=900)
    app.connect("build-finished", assets.copy_libraries)
    app.connect("build-finished", notebooks.write_all)
    app.connect(
        "build-finished", pages.write_index, priority=400
    )  # before sphinx_external_toc writes a bare one
    assets.add_page_assets(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
