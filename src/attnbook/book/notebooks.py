"""One notebook per language for Colab and Jupyter, made from the same source as the page.

Jupyter and Colab read plain Markdown, so MyST's own syntax is rewritten: citations and references become text
and links, numbered equations get a `\\tag`, admonitions become quotations, labels go. The first cell installs
the package where it is missing and sets the language. Syntax that has no rule here stops the build instead of
reaching a reader as raw markup.
"""

import base64
import copy
import json
import mimetypes
import re
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it.token import Token
from pybtex.database import Entry
from sphinx.application import Sphinx

from . import citations, exercises
from .errors import BookError, cell_name
from .language import LANGUAGES, select_language
from .markdown import parse, source_text
from .repository import Repository, find_repository
from .terms import terms_page

NOTES = {
    "note": ("注", "Note"),
    "tip": ("提示", "Tip"),
    "hint": ("提示", "Hint"),
    "important": ("重要", "Important"),
    "warning": ("注意", "Warning"),
    "caution": ("当心", "Caution"),
    "attention": ("注意", "Attention"),
    "danger": ("危险", "Danger"),
    "error": ("错误", "Error"),
    "seealso": ("另见", "See also"),
}
_DIRECTIVE = re.compile(r"^\{([\w:-]+)\}\s*(.*)$")
_OPTION = re.compile(r"^:([\w-]+):\s*(.*)$")
_NAMED = re.compile(r"^(.*?)\s*<([^<>]+)>$", re.S)
# In this order: a role before a code span (it holds one), code and mathematics before links.
_INLINE = re.compile(
    r"\{(?P<role>[a-z][\w:-]*)\}(?P<tick>`+)(?P<body>.+?)(?P=tick)"
    r"|(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<math>(?<!\\)\$\$.+?\$\$|(?<![\\$])\$(?!\$).+?(?<!\\)\$)"
    r"|(?P<link>(?<!!)\[(?P<text>(?:[^\[\]]|\\.)*)\]\((?P<target>[^()\s]*)\))",
    re.S,
)


@dataclass
class Target:
    """What a label stands for: a heading or an equation of a chapter."""

    docname: str
    text: str
    anchor: str


@dataclass
class Course:
    """What the notebooks of one language share."""

    language: str
    repository: Repository | None
    references: dict[str, Entry]
    package: str | None = None  # what the first cell installs with pip
    solutions: bool = True  # False leaves out the cells tagged `solution`
    targets: dict[str, Target] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)  # of chapters, by docname


def write_all(app: Sphinx, error: Exception | None) -> None:
    """Event `build-finished`: write the notebooks of this build's language beside its pages."""
    if error is not None or app.builder.format != "html" or app.config.attnbook_language not in LANGUAGES:
        return
    docnames = [d for d in sorted(app.env.found_docs) if app.env.doc2path(d).endswith(".ipynb")]
    write_notebooks(
        Path(app.srcdir),
        docnames,
        app.config.attnbook_language,
        Path(app.outdir) / "notebooks",
        find_repository(app.config),
        [Path(app.srcdir, name) for name in app.config.bibtex_bibfiles],
        solutions=app.config.attnbook_solutions,
    )


def write_notebooks(
    root: Path,
    docnames: list[str],
    language: str,
    folder: Path,
    repository: Repository | None,
    bibfiles: list[Path],
    package: str | None = None,
    solutions: bool = True,
) -> list[Path]:
    """Write the notebooks `docnames` (below `root`) in one language into `folder`.

    `package` is what their first cell has pip install: the repository, if it is None. Without `solutions` the
    cells tagged `solution` stay out; hints stay, folded, and so does what each exercise showed.
    """
    references: dict[str, Entry] = {}
    for bibfile in bibfiles:
        references |= citations.load_references(bibfile)
    package = package or (repository.requirement if repository else None)
    course = Course(language, repository, references, package, solutions)
    selected = {}
    for docname in docnames:
        name = f"{docname}.ipynb"
        notebook = json.loads((root / name).read_text(encoding="utf-8"))
        notebook = exercises.fill(notebook, root / name, [root / f"{other}.ipynb" for other in docnames])
        selected[docname], anchors = select_language(notebook, language, name)
        collect_targets(course, docname, selected[docname], anchors)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for docname, notebook in selected.items():
        converted = convert(course, root, docname, notebook)
        path = folder / f"{Path(docname).name}.ipynb"
        path.write_text(json.dumps(converted, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        written.append(path)
    return written


def collect_targets(course: Course, docname: str, notebook: dict, anchors: list[str]) -> None:
    """Note what the labels of a chapter stand for, and its title."""
    anchor = iter(anchors)
    equations = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        pending: list[str] = []
        tokens = parse(source_text(cell))
        for token, following in zip(tokens, [*tokens[1:], None], strict=True):
            if token.type == "myst_target":
                pending.append(token.content)
            elif token.type == "heading_open" and token.level == 0:
                place = next(anchor)
                course.titles.setdefault(docname, following.content)
                for label in pending:
                    course.targets[label] = Target(docname, following.content, place)
                pending = []
            elif token.type == "math_block_label" or _is_numbered_math(token):
                equations += 1
                label = (
                    token.info if token.type == "math_block_label" else _options(token.content)[0]["label"]
                )
                course.targets[label] = Target(docname, f"({equations})", f"equation-{label}")
            elif token.nesting >= 0 and token.type != "inline":
                pending = []


def _is_numbered_math(token: Token) -> bool:
    return (
        token.type in ("fence", "colon_fence")
        and token.info.strip() == "{math}"
        and ":label:" in token.content
    )


def convert(course: Course, root: Path, docname: str, notebook: dict) -> dict:
    """The reader's notebook: plain Markdown, a first cell that gets the package, no outputs."""
    cells = [first_cell(course, docname)]
    cited: list[str] = []
    for index, cell in enumerate(notebook["cells"]):
        if not course.solutions and "solution" in cell["metadata"].get("tags", []):
            continue
        cell = copy.deepcopy(cell)
        if cell["cell_type"] == "markdown":
            where = cell_name(f"{docname}.ipynb", index, cell)
            cell["source"] = Converter(course, root, docname, where, cited).convert(source_text(cell))
        elif cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
            if {"hide-input", "hide-cell", "solution"} & set(cell["metadata"].get("tags", [])):
                cell["metadata"]["jupyter"] = {"source_hidden": True}
        cells.append(cell)
    metadata = {
        key: notebook["metadata"][key]
        for key in ("kernelspec", "language_info")
        if key in notebook["metadata"]
    }
    metadata["colab"] = {"name": f"{Path(docname).name}.ipynb", "toc_visible": True}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def first_cell(course: Course, docname: str) -> dict:
    """Gets the package where it is missing, in Colab without touching torch or numpy; sets the language."""
    lines = []
    if course.package:
        comment = (
            "没有课程的代码包就装上；在 Colab 中不改动 torch 和 numpy。"
            if course.language == "zh"
            else "Installs the course's package if it is missing; in Colab, torch and numpy stay as they are."
        )
        lines += [
            f"# {comment}",
            "import importlib.util, subprocess, sys",
            "",
            'if importlib.util.find_spec("attnbook") is None:',
            f"    package = {json.dumps(course.package, ensure_ascii=False)}",
            '    alone = ["--no-deps"] if "google.colab" in sys.modules else []',
            '    pip = [sys.executable, "-m", "pip", "install", "--quiet", *alone]',
            "    subprocess.run([*pip, package], check=True)",
            "    importlib.invalidate_caches()",
            "",
        ]
    lines += ["import attnbook", "", f'attnbook.set_language("{course.language}")']
    return {
        "cell_type": "code",
        "id": uuid.uuid5(uuid.NAMESPACE_URL, f"{docname}/{course.language}").hex[:8],
        "metadata": {"tags": ["setup"]},
        "source": "\n".join(lines),
        "outputs": [],
        "execution_count": None,
    }


class Converter:
    """Rewrites the MyST Markdown of one cell as plain Markdown."""

    def __init__(self, course: Course, root: Path, docname: str, where: str, cited: list[str]):
        self.course, self.root, self.docname, self.where, self.cited = course, root, docname, where, cited

    def convert(self, text: str) -> str:
        """Rewrite block by block; what is neither a block of MyST nor code is rewritten inline."""
        lines = text.split("\n")
        output: list[str] = []
        done = 0
        for token in parse(text):
            if token.map is None or token.map[0] < done:
                continue
            start, end = token.map
            replacement = self.block(token, lines[start:end])
            if replacement is None:
                continue
            output.append(self.inline("\n".join(lines[done:start])))
            indent = re.match(r"\s*", lines[start])[0] if token.level else ""
            output.append("\n".join(indent + line if line else line for line in replacement.split("\n")))
            done = end
        output.append(self.inline("\n".join(lines[done:])))
        joined = "\n".join(part for part in output if part.strip() or part == "")
        return re.sub(r"\n{3,}", "\n\n", joined).strip("\n")

    def block(self, token: Token, lines: list[str]) -> str | None:
        """The replacement of a block, None if its lines stay and are rewritten inline."""
        if token.type in ("myst_target", "myst_line_comment", "myst_block_break"):
            return ""
        if token.type == "math_block_label":
            number = self.course.targets[token.info].text.strip("()")
            return f"$$\n{token.content.strip()} \\tag{{{number}}}\n$$"
        if token.type in ("fence", "colon_fence"):
            directive = _DIRECTIVE.match(token.info.strip())
            if directive:
                return self.directive(directive[1], directive[2].strip(), token.content)
            return "\n".join(lines)
        if token.type in ("code_block", "math_block", "amsmath"):
            return "\n".join(lines)
        return None

    def directive(self, name: str, argument: str, content: str) -> str:
        """A directive as plain Markdown."""
        options, body = _options(content)
        zh = self.course.language == "zh"
        if name in NOTES or name == "admonition":
            title = self.inline(argument) if name == "admonition" else NOTES[name][0 if zh else 1]
            body = body if name == "admonition" or not argument else f"{argument}\n{body}"
            if name == "admonition" and "dropdown" in options.get("class", ""):
                return self._details(title, body)
            quoted = f"**{title}**\n\n{self.convert(body)}".rstrip()
            return "\n".join(f"> {line}".rstrip() for line in quoted.split("\n"))
        if name == "dropdown":
            return self._details(self.inline(argument), body)
        if name == "math":
            text = f"{argument}\n{body}".strip()
            if "label" in options:
                text += f" \\tag{{{self.course.targets[options['label']].text.strip('()')}}}"
            return f"$$\n{text}\n$$"
        if name in ("code", "code-block"):
            return f"```{argument}\n{body}\n```"
        if name in ("image", "figure"):
            caption = self.convert(body)
            image = f"![{options.get('alt', '')}]({self._embedded(argument)})"
            return f"{image}\n\n{caption}" if caption else image
        if name == "terms":
            return self.convert(terms_page(self.root, self.docname, self.course.titles, self.course.language))
        if name == "bibliography":
            everything = self.course.references
            cited = {key: everything[key] for key in dict.fromkeys(self.cited)}
            return citations.reference_list(everything if "all" in options else cited)
        raise BookError(f"{self.where}: the directive {name} has no rule for the readers' notebooks")

    def _details(self, title: str, body: str) -> str:
        return f"<details><summary>{title}</summary>\n\n{self.convert(body)}\n\n</details>"

    def _embedded(self, source: str) -> str:
        """An image file as a data address: the notebook travels alone."""
        path = (self.root / self.docname).parent / source
        if not path.is_file():
            raise BookError(f"{self.where}: expected the image {source}, found no such file")
        kind = mimetypes.guess_type(path.name)[0]
        return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"

    def inline(self, text: str) -> str:
        """Roles, cross-references and links to chapters as plain Markdown; code and mathematics stay."""
        return _INLINE.sub(self._inline, text)

    def _inline(self, match: re.Match) -> str:
        if match["role"]:
            return self.role(match["role"], match["body"])
        if match["link"]:
            return self.link(match["text"], match["target"])
        return match[0]

    def role(self, name: str, body: str) -> str:
        """A role as plain Markdown."""
        if name in ("cite:p", "cite:t", "cite"):
            entries = []
            for key in (part.strip() for part in body.split(",")):
                if key not in self.course.references:
                    raise BookError(f"{self.where}: expected a key of references.bib, found {key!r}")
                self.cited.append(key)
                entries.append(self.course.references[key])
            return citations.cite(entries, "cite:t" if name == "cite:t" else "cite:p", self.course.language)
        named = _NAMED.match(body)
        text, label = (named[1], named[2]) if named else ("", body)
        if name in ("ref", "eq", "numref"):
            if label not in self.course.targets:
                raise BookError(
                    f"{self.where}: expected the label of a heading or an equation, found {label!r}"
                )
            target = self.course.targets[label]
            return self._refer(text or target.text, target.docname, target.anchor)
        if name == "doc":
            docname = self._docname(label)
            return self._refer(text or self.course.titles[docname], docname, "")
        if name == "math":
            return f"${body}$"
        if name in ("sub", "sup", "kbd"):
            return f"<{name}>{body}</{name}>"
        raise BookError(f"{self.where}: the role {name} has no rule for the readers' notebooks")

    def link(self, text: str, target: str) -> str:
        """A link to a heading or a chapter leads to the published page; others stay."""
        path, _, anchor = target.partition("#")
        text = self.inline(text)
        if not target or re.match(r"[a-z][a-z0-9+.-]*:", target) or (path and not path.endswith(".ipynb")):
            return f"[{text}]({target})"
        docname = self._docname(path.removesuffix(".ipynb")) if path else self.docname
        known = self.course.targets.get(anchor)
        if known and not path:
            docname, anchor = known.docname, known.anchor
            text = text or known.text
        return self._refer(text or self.course.titles[docname], docname, anchor)

    def _docname(self, path: str) -> str:
        """The chapter that a relative path names."""
        folder = Path(self.docname).parent
        docname = path.lstrip("/") if path.startswith("/") else (folder / path).as_posix()
        if docname not in self.course.titles:
            raise BookError(f"{self.where}: expected a chapter of the book, found {path!r}")
        return docname

    def _refer(self, text: str, docname: str, anchor: str) -> str:
        """A link to the published page; without one, to the notebook beside this one, or just the text."""
        if self.course.repository:
            page = self.course.repository.page(self.course.language, docname)
            return f"[{text}]({page}{'#' + anchor if anchor else ''})"
        if docname == self.docname:
            return text
        return f"[{text}]({Path(docname).name}.ipynb)"


def _options(content: str) -> tuple[dict[str, str], str]:
    """The `:name: value` lines at the top of a directive, and the rest."""
    lines = content.strip("\n").split("\n")
    options = {}
    while lines and (match := _OPTION.match(lines[0])):
        options[match[1]] = match[2].strip()
        lines.pop(0)
    return options, "\n".join(lines).strip("\n")
