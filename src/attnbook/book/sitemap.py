"""`sitemap.xml`: every page with the address of its partner in the other languages."""

from pathlib import Path

from .language import HTML_LANGUAGE


def write_sitemap(site: Path, address: str, docnames: list[str], languages: tuple[str, ...]) -> None:
    """Write the sitemap of a site that will be at `address` (which ends in a slash)."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:xhtml="http://www.w3.org/1999/xhtml">',
        f"<url><loc>{address}</loc></url>",
    ]
    for docname in docnames:
        pages = {language: f"{address}{language}/{docname}.html" for language in languages}
        partners = "".join(
            f'<xhtml:link rel="alternate" hreflang="{HTML_LANGUAGE[language]}" href="{page}"/>'
            for language, page in pages.items()
        )
        lines += [f"<url><loc>{page}</loc>{partners}</url>" for page in pages.values()]
    (site / "sitemap.xml").write_text("\n".join([*lines, "</urlset>", ""]), encoding="utf-8")
