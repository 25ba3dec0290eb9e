"""What surrounds the text of a page: language switch, download and Colab links, head, foot."""

import html
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

from .about import about
from .language import HTML_LANGUAGE, LANGUAGES
from .parallel import join
from .repository import Repository, find_repository
from .strings import template_translator

NAMES = {"zh": "中文", "en": "English"}
LOCALE = {"zh": "zh_CN", "en": "en_GB", "both": "zh_CN"}  # as Open Graph writes it
PICTURE = {
    "zh": "一句中文和它的英文译文，中间的线是 Transformer 的注意力",
    "en": "A Chinese sentence and its translation, joined by the attention of a Transformer",
}
PICTURE["both"] = join(PICTURE["zh"], PICTURE["en"])
LONGEST_DESCRIPTION = 200  # characters


def configure(config: Config) -> None:
    """Pages name their own address, if the repository gives them one."""
    repository = find_repository(config)
    if repository:
        config.html_baseurl = f"{repository.site}{config.attnbook_language}/"


def complete_context(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """Event `html-page-context`: what `templates/` need for one page."""
    language = app.config.attnbook_language
    context["language"] = HTML_LANGUAGE[language]
    # docutils' role for an entry of a bibliography is deprecated, and a list may only hold list items.
    context["body"] = context.get("body", "").replace('role="doc-biblioentry"', 'role="listitem"')
    context |= template_translator(language, app.translator.gettext)
    root = context["content_root"]
    editions = [
        {
            "code": HTML_LANGUAGE[code],
            "name": NAMES[code],
            "current": code == language,
            "url": f"{root}../{code}/{pagename}.html",
        }
        for code in LANGUAGES
        if code in app.config.attnbook_editions
    ]
    page = {"editions": editions if len(editions) > 1 else [], "home": f"{root}../index.html"}
    if "both" in app.config.attnbook_editions:
        page["parallel"] = {"current": language == "both", "url": f"{root}../both/{pagename}.html"}
    if app.env.doc2path(pagename).endswith(".ipynb") and pagename in app.env.found_docs:
        page["notebooks"] = notebook_links(app, root, Path(pagename).name)
        repository = find_repository(app.config)
        page["repository"] = repository.url if repository else None
    context["attnbook"] = page
    context["about"] = about(Path(app.srcdir), find_repository(app.config))
    context["social"] = {
        "title": context.get("title", ""),
        "description": description(doctree),
        "url": f"{app.config.html_baseurl}{pagename}.html",
        "locale": LOCALE[language],
        "picture": PICTURE[language],
    }


def description(doctree: nodes.document | None) -> str:
    """The first paragraph of a page, for search engines and for where its link is shared."""
    paragraphs = doctree.findall(nodes.paragraph) if doctree else ()
    text = " ".join(next((paragraph.astext() for paragraph in paragraphs), "").split())
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[: LONGEST_DESCRIPTION - 1].rstrip()}…"


def notebook_links(app: Sphinx, root: str, stem: str) -> list[dict[str, Any]]:
    """Where the notebook of a page is, and what can run it; in both languages on a parallel page."""
    language, repository = app.config.attnbook_language, find_repository(app.config)
    links = []
    for code in LANGUAGES if language == "both" else [language]:
        if language == "both" and code not in app.config.attnbook_editions:
            continue  # the parallel edition alone has no notebooks of its own
        folder = f"{root}../{code}/" if language == "both" else root
        link: dict[str, Any] = {"file": f"{stem}.ipynb", "url": f"{folder}notebooks/{stem}.ipynb"}
        link["language"] = NAMES[code] if language == "both" else ""
        hubs = app.config.attnbook_hubs
        link["launches"] = launches(repository, hubs, code, link["file"]) if repository else []
        links.append(link)
    return links


def launches(
    repository: Repository, hubs: dict[str, str], language: str, notebook: str
) -> list[tuple[str, str]]:
    """Label and address of everything that can run one language's notebook.

    Colab always; Binder and a school's JupyterHub if `launch_buttons` of `_config.yml` says where they are.
    """
    found = [("Open in Colab", repository.colab(language, notebook))]
    if hubs.get("binderhub_url"):
        found.append(("Open in Binder", repository.binder(hubs["binderhub_url"], language, notebook)))
    if hubs.get("jupyterhub_url"):
        found.append(
            ("Open in JupyterHub", repository.jupyterhub(hubs["jupyterhub_url"], language, notebook))
        )
    return found


def write_index(app: Sphinx, error: Exception | None) -> None:
    """Event `build-finished`: `index.html` leads to the first page."""
    index = Path(app.outdir) / "index.html"
    if error is not None or app.builder.format != "html" or app.config.root_doc == "index":
        return
    title = html.escape(app.config.html_title)
    first = html.escape(f"{app.config.root_doc}.html")
    index.write_text(
        f'<!DOCTYPE html>\n<html lang="{HTML_LANGUAGE[app.config.attnbook_language]}">\n'
        f'<head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="refresh" content="0; url={first}"></head>\n'
        f'<body><main><h1>{title}</h1><p><a href="{first}">{title}</a></p></main></body>\n</html>\n',
        encoding="utf-8",
    )
