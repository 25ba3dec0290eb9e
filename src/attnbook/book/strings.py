"""Words of the book that are not in a chapter: titles, part captions, the theme's labels.

`_config.yml` and `_toc.yml` hold both languages side by side as `中文 | English`; here one side is chosen.
What the themes say is translated by Sphinx's catalogues; `ZH` holds what those leave in English.
"""

from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.config import Config
from sphinx.transforms import SphinxTransform

from .language import pick
from .notebooks import NOTES
from .parallel import join

ZH = {
    "Collapse Sidebar": "收起侧栏",
    "Color mode": "浅色或深色",
    "System Settings": "跟随系统",
    "Download": "下载",
    "Download or run this page": "下载或运行本页",
    "Jupyter notebook": "Jupyter 笔记本",
    "Open in Binder": "在 Binder 中打开",
    "Open in Colab": "在 Colab 中打开",
    "Open in JupyterHub": "在 JupyterHub 中打开",
    "Print or save as PDF": "打印或存为 PDF",
    "Source code": "源代码",
    "Language": "语言",
    "Both languages, passage by passage": "中英对照",
    "Show or hide the table of contents": "显示或隐藏目录",
    "Show or hide this page's contents": "显示或隐藏本页目录",
    "Main": "目录",
    "previous": "上一章",
    "next": "下一章",
    "previous page": "上一章",
    "next page": "下一章",
    "Search...": "搜索……",
    "© Copyright %(copyright)s.": "© %(copyright)s",
    "Searching": "正在搜索",
    "Preparing search...": "正在准备搜索……",
    "Search finished, found ${resultCount} page(s) matching the search query.": (
        "搜索完成，找到 ${resultCount} 个页面。"
    ),
    "Read this page in the other language": "用另一种语言阅读本页",
    "To a link to this heading": "本节的链接",
}

# What opens a hidden cell: by kind of cell, closed and open.
CODE_PROMPTS = {
    "zh": {
        "code": ("显示代码", "收起代码"),
        "output": ("显示结果", "收起结果"),
        "solution": ("显示参考解答", "收起参考解答"),
    },
    "en": {
        "code": ("Show the code", "Hide the code"),
        "output": ("Show the output", "Hide the output"),
        "solution": ("Show the solution", "Hide the solution"),
    },
}


def configure(config: Config) -> None:
    """Choose what the edition shows of everything that the configuration holds in both languages."""
    language = config.attnbook_language
    for name in ("html_title", "project", "author", "copyright"):
        config[name] = pick(config[name], language)
    config.html_theme_options["search_bar_text"] = translate("Search...", language)
    if language == "both":  # one of the few words that the theme translates by itself
        config.html_theme_options["toc_title"] = join("目录", "Contents")
    for document in config.external_site_map.values():
        for subtree in document.subtrees:
            if subtree.caption:
                subtree.caption = pick(subtree.caption, language)
    # The search field stands in the side bar and, on a narrow screen, in the page's header.
    config.html_theme_options["navbar_persistent"] = []


class CellPrompts(SphinxTransform):
    """Says in the page's language what a hidden cell holds; leaves solutions out where that is configured."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for cell in list(self.document.findall(nodes.container)):
            solution = "solution" in cell.get("cell_metadata", {}).get("tags", [])
            if solution and not self.config.attnbook_solutions:
                cell.parent.remove(cell)
                continue
            if "hide_mode" not in cell:
                continue
            kind = "output" if cell["hide_mode"] == "output" else "code"
            if solution:
                kind = "solution"
            cell["prompt_show"], cell["prompt_hide"] = prompts(kind, self.config.attnbook_language)


class AdmonitionTitles(SphinxTransform):
    """Names an admonition of the parallel edition in both languages; elsewhere the theme does it."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        if self.config.attnbook_language != "both":
            return
        for box in list(self.document.findall(nodes.Admonition)):
            if box.tagname in NOTES:
                title = nodes.title("", join(*NOTES[box.tagname]))
                box.replace_self(
                    nodes.admonition("", title, *box.children, classes=[box.tagname, *box["classes"]])
                )


def prompts(kind: str, language: str) -> tuple[str, ...]:
    """What opens and what closes a hidden cell."""
    if language == "both":
        return tuple(map(join, CODE_PROMPTS["zh"][kind], CODE_PROMPTS["en"][kind]))
    return CODE_PROMPTS[language][kind]


def translate(text: str, language: str, fallback: Callable[[str], str] = str) -> str:
    """`text` in the page's language; what `ZH` does not hold is left to `fallback`."""
    if language == "en":
        return fallback(text)
    zh = ZH[text] if text in ZH else fallback(text)
    return join(zh, text) if language == "both" and "%" not in text else zh


def template_translator(language: str, fallback: Callable[[str], str]) -> dict[str, Any]:
    """`_` and `gettext` for the page templates."""

    def gettext(text: str) -> str:
        return translate(text, language, fallback)

    return {"_": gettext, "gettext": gettext}
