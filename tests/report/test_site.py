"""The documentation as a site: it builds, and is read from disk or a server, accessible and closed to the network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from bench import REPOSITORY
from report.test_browser import CHROMIUM, WIDTHS, Opened, browser, violations
from thorough import thorough_but

__all__ = ["browser"]

in_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed to open the pages with")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make docs` writes, with the line that it prints as the name of a file to open."""
    made = tmp_path_factory.mktemp("docs")
    for name in ("docs", "conf", "fp2", "README.md", "mkdocs.yml", "Makefile"):
        (made / name).symlink_to(REPOSITORY / name)
    (made / ".venv" / "bin").mkdir(parents=True)
    (made / ".venv" / ".ready").touch()
    command = made / ".venv" / "bin" / "mkdocs"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m mkdocs "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    make = [str(shutil.which("make")), "--no-print-directory", "docs", "--old-file=.venv/.ready"]
    done = subprocess.run(make, cwd=made, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    start = Path(done.stdout.split()[-1])
    assert start == made / "site" / "index.html"
    return start.parent


def test_it_builds_without_a_warning(site: Path) -> None:
    """Every page is in the navigation, every link leads somewhere, docstrings render, nothing is from outside."""
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert {"index.html", "start.html", "reference/commands.html", "reference/python.html"} <= pages
    assert "fp2 passport" in (site / "reference" / "commands.html").read_text(encoding="utf-8")
    outside = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="https?://')
    assert not [page for page in pages if outside.search((site / page).read_text(encoding="utf-8"))]


@in_chromium
@pytest.mark.parametrize("name", thorough_but(["index", "start", "scorers", "reference/python"], "scorers"))
def test_a_page_is_accessible_silent_and_closed(browser: Any, site: Path, name: str) -> None:
    for width, scheme in ((WIDTHS[0], "dark"), (WIDTHS[-1], "light")):
        with Opened(browser, (site / f"{name}.html").as_uri(), width, scheme) as one:
            assert not violations(one.page, least="serious"), (width, scheme)  # the theme has moderate ones
            assert one.page.evaluate("document.documentElement.scrollWidth") <= width
            assert not one.said
            assert all(address.startswith((site.as_uri(), "data:")) for address in one.asked)


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The address of the site on a web server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Silent(SimpleHTTPRequestHandler):
    """A web server that prints nothing."""

    def log_message(self, *args: object) -> None:
        pass


@in_chromium
@pytest.mark.parametrize("place", ["disk", "server"])
def test_the_search_finds_pages(browser: Any, site: Path, served: str, place: str) -> None:
    root = site.as_uri() if place == "disk" else served
    with Opened(browser, f"{root}/reference/python.html", WIDTHS[-1], "light") as one:
        one.page.locator("input[name=query]").press_sequentially("counterfactual")  # keys are heard, not the value
        found = one.page.locator(".md-search-result__item a")
        found.first.wait_for(state="attached")
        assert f"{root}/data.html" in {str(link.get_attribute("href")).partition("?")[0] for link in found.all()}
        found.first.click()
        assert one.page.url.startswith(root)
        assert not one.said
        assert all(address.startswith((root, "data:", "blob:")) for address in one.asked)
