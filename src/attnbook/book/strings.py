"""Words of the book that are not in a chapter: titles, part captions, the theme's labels.

`_config.yml` and `_toc.yml` hold both languages side by side as `中文 | English`; here one side is chosen.
What the themes say is translated by Sphinx's catalogues; `ZH` holds what those leave in English.
"""

from collections.abc import Callable
from typing import Any

from sphinx.config import Config

from .language import pick

ZH = {
    "Collapse Sidebar": "收起侧栏",
    "Color mode": "浅色或深色",
    "System Settings": "跟随系统",
    "Download": "下载",
    "Download or run this page": "下载或运行本页",
    "Jupyter notebook": "Jupyter 笔记本",
    "Open in Colab": "在 Colab 中打开",
    "Print or save as PDF": "打印或存为 PDF",
    "Source code": "源代码",
    "Language": "语言",
    "Show or hide the table of contents": "显示或隐藏目录",
    "Show or hide this page's contents": "显示或隐藏本页目录",
    "Main": "目录",
    "previous": "上一章",
    "next": "下一章",
    "previous page": "上一章",
    "next page": "下一章",
    "Search...": "搜索……",
    "Searching": "正在搜索",
    "Preparing search...": "正在准备搜索……",
    "Search finished, found ${resultCount} page(s) matching the search query.": (
        "搜索完成，找到 ${resultCount} 个页面。"
    ),
    "Read this page in the other language": "用另一种语言阅读本页",
    "To a link to this heading": "本节的链接",
}

CODE_PROMPTS = {"zh": ("显示{type}", "隐藏{type}"), "en": ("Show {type}", "Hide {type}")}


def configure(config: Config) -> None:
    """Choose one language for everything that the configuration holds in both."""
    language = config.attnbook_language
    for name in ("html_title", "project", "author", "copyright"):
        config[name] = pick(config[name], language)
    config.html_theme_options["search_bar_text"] = translate("Search...", language)
    for document in config.external_site_map.values():
        for subtree in document.subtrees:
            if subtree.caption:
                subtree.caption = pick(subtree.caption, language)
    config.nb_code_prompt_show, config.nb_code_prompt_hide = CODE_PROMPTS[language]


def translate(text: str, language: str, fallback: Callable[[str], str] = str) -> str:
    """`text` in the page's language; what `ZH` does not hold is left to `fallback`."""
    return ZH[text] if language == "zh" and text in ZH else fallback(text)


def template_translator(language: str, fallback: Callable[[str], str]) -> dict[str, Any]:
    """`_` and `gettext` for the page templates."""

    def gettext(text: str) -> str:
        return translate(text, language, fallback)

    return {"_": gettext, "gettext": gettext}
