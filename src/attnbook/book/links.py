"""Checks the built site: every link to a page or file of the site leads somewhere, fragment included."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ATTRIBUTES = {
    ("a", "href"),
    ("link", "href"),
    ("script", "src"),
    ("img", "src"),
    ("source", "src"),
    ("iframe", "src"),
}


@dataclass
class Page(HTMLParser):
    """The ids that a page offers and the addresses that it names."""

    ids: set[str] = field(default_factory=set)
    addresses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value)
            if (tag, name) in ATTRIBUTES:
                self.addresses.append(value)


def read_page(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken_links(site: Path, base: str = "/") -> list[str]:
    """One line for every internal link of the site that leads nowhere: page, address, what is missing.

    `base` is where the site will be on its host, for the addresses that begin with a slash.
    """
    paths = [path.resolve() for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: read_page(path) for path in paths}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        for address in dict.fromkeys(page.addresses):
            url = urlsplit(address)
            if url.scheme or url.netloc:
                continue
            folder, where = path.parent, url.path
            if where.startswith(base):
                folder, where = site, where.removeprefix(base)
            target = (folder / unquote(where)).resolve() if url.path else path
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                found.append(f"{name}: {address} leads to no file")
            elif url.fragment and target in pages and unquote(url.fragment) not in pages[target].ids:
                found.append(f"{name}: {address} leads to no such place in {target.name}")
    return found
