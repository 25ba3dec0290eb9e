"""Everything that depends on the repository's address, so that a fork works unedited.

The address is `https://github.com/$GITHUB_REPOSITORY` where that is set (GitHub's CI), else
`repository.url` of `_config.yml`. Without either, pages and notebooks leave out what would need it. The site
is where GitHub Pages puts it, or where `$SITE_URL` says (a domain of one's own).
"""

import os
import re
from dataclasses import dataclass
from importlib.metadata import version
from urllib.parse import quote, urlencode, urlsplit

from sphinx.config import Config

from .errors import BookError

_GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?$")


@dataclass(frozen=True)
class Repository:
    """A GitHub repository, and the branch on which publishing leaves the notebooks of each language."""

    owner: str
    name: str
    notebooks_branch: str = "notebooks"
    address: str = ""  # of the published site, if it is not the one that GitHub Pages gives

    @property
    def url(self) -> str:
        return f"https://github.com/{self.owner}/{self.name}"

    @property
    def site(self) -> str:
        """Where the site is published; ends in a slash."""
        if self.address:
            return f"{self.address.rstrip('/')}/"
        host = f"{self.owner.lower()}.github.io"
        return f"https://{host}/" if self.name.lower() == host else f"https://{host}/{self.name}/"

    @property
    def base(self) -> str:
        """Where the published site is on its host; begins and ends with a slash."""
        return urlsplit(self.site).path

    def page(self, language: str, docname: str) -> str:
        """The published page of a chapter."""
        return f"{self.site}{language}/{docname}.html"

    def colab(self, language: str, notebook: str) -> str:
        """Opens one language's notebook in Colab, which reads notebooks from a branch of a repository."""
        return (
            f"https://colab.research.google.com/github/{self.owner}/{self.name}/blob/"
            f"{self.notebooks_branch}/{language}/{notebook}"
        )

    def binder(self, hub: str, language: str, notebook: str) -> str:
        """Opens it on a BinderHub, which makes the environment from the repository's environment.yml."""
        pull = quote(self._pull(language, notebook), safe="")
        return f"{hub.rstrip('/')}/v2/gh/{self.owner}/{self.name}/HEAD?urlpath={pull}"

    def jupyterhub(self, hub: str, language: str, notebook: str) -> str:
        """Opens it on a JupyterHub that has nbgitpuller."""
        return f"{hub.rstrip('/')}/hub/user-redirect/{self._pull(language, notebook)}"

    def _pull(self, language: str, notebook: str) -> str:
        """What nbgitpuller does there: fetch the notebooks, keep what the reader has changed, open one."""
        place = f"lab/tree/{self.name}/{language}/{notebook}"
        return "git-pull?" + urlencode({"repo": self.url, "branch": self.notebooks_branch, "urlpath": place})

    @property
    def wheel(self) -> str:
        """The file name of the package's wheel, which is published with the site."""
        return f"attnbook-{version('attnbook')}-py3-none-any.whl"

    @property
    def requirement(self) -> str:
        """What pip installs to get the package that belongs to the published pages."""
        return f"attnbook @ {self.site}{self.wheel}"


def find_repository(config: Config) -> Repository | None:
    """The repository of a build by Sphinx."""
    return repository_of(
        config.html_theme_options.get("repository_url", ""), config.attnbook_notebooks_branch
    )


def repository_of(configured_url: str, notebooks_branch: str = "notebooks") -> Repository | None:
    """The repository, None without an address; `BookError` for one that is not on GitHub."""
    name = os.environ.get("GITHUB_REPOSITORY")
    url = f"https://github.com/{name}" if name else configured_url
    if not url:
        return None
    match = _GITHUB.match(url)
    if not match:
        raise BookError(f"repository.url: expected https://github.com/OWNER/NAME, found {url!r}")
    return Repository(match[1], match[2], notebooks_branch, os.environ.get("SITE_URL", ""))
