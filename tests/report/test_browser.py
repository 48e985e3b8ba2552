"""The page in a real browser: opened from disk, without a network, and used."""

import shutil

import pytest

from report.conftest import END, IMAGE, SCRIPT

sync_api = pytest.importorskip("playwright.sync_api")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FOUND = next((path for name in NAMES if (path := shutil.which(name))), None)

pytestmark = [
    pytest.mark.skipif(FOUND is None, reason="no Chromium or Chrome is installed"),
    pytest.mark.xdist_group("browser"),
]

# Kept in a page, whatever its policy: what a script that should not run would do.
SEES = "window.ran = []; window.alert = (x) => window.ran.push(x);"


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    profile = str(tmp_path_factory.mktemp("profile"))
    with sync_api.sync_playwright() as driver:
        own = driver.chromium.launch_persistent_context(
            profile, executable_path=FOUND, args=list(FLAGS), offline=True
        )
        own.add_init_script(SEES)
        yield own
        own.close()


@pytest.fixture(scope="module")
def saved(hostile, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    hostile[-1].save(path)
    return path


@pytest.fixture
def visit(context):
    """Open a file, and at the end require that nothing went wrong and nothing else was asked."""
    problems, pages = [], []

    def opened(path, width=1280, scheme="light"):
        page = context.new_page()
        pages.append(page)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on(
            "request", lambda r: r.url.startswith(("file:", "data:")) or problems.append(r.url)
        )
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.goto(path.as_uri())
        return page

    yield opened
    assert problems == []
    for page in pages:
        page.close()


def names(page, where):
    shown = f"[...document.querySelectorAll('{where}')].filter(e => !e.hidden)"
    return page.evaluate(f"{shown}.map(e => e.dataset.name)")


ROWS, CARDS = "#overview tbody tr", "#cards article"


def test_names_and_cells_do_not_run(visit, saved, tmp_path):
    weak = tmp_path / "weak.html"
    text = saved.read_text(encoding="utf-8")
    # Without the policy of the page, nothing but escaping keeps scripts from running.
    weak.write_text(text.replace("Content-Security-Policy", "X-Nothing"), encoding="utf-8")
    for path in (saved, weak):
        page = visit(path)
        page.wait_for_timeout(100)
        assert page.evaluate("window.ran") == []
        assert page.evaluate("document.scripts.length") == 2
        assert page.title().startswith(SCRIPT)
        assert page.locator("h1").inner_text() == f"{SCRIPT} & more"
        headings = page.locator("article h3").all_inner_texts()
        for name in (SCRIPT, IMAGE, END):
            assert any(heading.startswith(name) for heading in headings)
        assert page.locator("article", has_text=SCRIPT).count() >= 2  # a name and cells


def test_the_guard_would_see_a_script_that_runs(visit, tmp_path):
    (tmp_path / "bad.html").write_text(f"<h1>{SCRIPT}</h1><img src=x onerror=alert(2)>")
    page = visit(tmp_path / "bad.html")
    page.wait_for_function("window.ran.length == 2")


def test_columns_are_searched(visit, saved):
    page = visit(saved)
    page.locator("#search").fill("datetime")
    assert names(page, ROWS) == names(page, CARDS) == ["day"]
    assert page.locator("#found").inner_text() == "1 of 6 columns"
    page.locator("#search").fill("<SCRIPT")
    assert SCRIPT in names(page, CARDS)
    page.locator("#search").fill("")
    assert len(names(page, CARDS)) == 6


def test_columns_are_sorted(visit, saved, hostile):
    page, frame = visit(saved), hostile[0]
    by_gaps = list(frame.isna().mean().sort_values(ascending=False, kind="stable").index)
    page.locator("button[data-sort=missing]").click()
    assert names(page, ROWS) == names(page, CARDS) == by_gaps
    heading = page.locator("th[aria-sort]")
    assert heading.get_attribute("aria-sort") == "descending"
    heading.locator("button").click()
    assert names(page, CARDS) == by_gaps[::-1]
    page.locator("button[data-sort=error]").click()
    assert names(page, CARDS)[-1] in ("id", "void")  # without a number: last in both orders
    page.locator("button[data-sort=error]").click()
    assert names(page, CARDS)[-1] in ("id", "void")
    page.locator("button[data-sort=order]").click()
    assert names(page, CARDS) == list(frame.columns)


def test_contents_lead_to_their_sections(visit, saved):
    page = visit(saved)
    for link in page.locator("nav a").all():
        link.click()
        target = link.get_attribute("href")
        sync_api.expect(page.locator(f"{target} h2")).to_be_in_viewport()
        assert page.url.endswith(target)
    page.locator(f"{ROWS} a").nth(3).click()
    assert page.locator("article:target").get_attribute("data-name") == "day"


CONTRAST = """selector => {
  const light = (c) => {
    const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    const colour = getComputedStyle(e).backgroundColor;
    return /, 0\\)$/.test(colour) ? behind(e.parentElement) : colour;
  };
  return [...document.querySelectorAll(selector)].map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_and_can_be_read(visit, saved, width, scheme):
    page = visit(saved, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    overview = "document.querySelector('#overview').parentElement"
    assert page.evaluate(f"{overview}.scrollWidth - {overview}.clientWidth") <= 0
    # What WCAG asks of text.
    assert min(page.evaluate(CONTRAST, "h1, p, a, .verdict, figcaption, td, th button")) > 4.5
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")


def test_it_prints(visit, saved):
    page = visit(saved, scheme="dark")
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf().startswith(b"%PDF")
    page.set_viewport_size({"width": 680, "height": 900})  # A4 without its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 680  # nothing is cut off


def test_json_inside(visit, saved, hostile):
    page = visit(saved)
    read = "JSON.parse(document.querySelector('#data').textContent).columns.map(c => c.name)"
    assert page.evaluate(read) == list(hostile[0].columns)


def test_in_a_notebook(visit, hostile, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<p>out:</p>{hostile[-1]._repr_html_()}", "utf-8")
    page = visit(tmp_path / "notebook.html")
    frame = page.frame_locator("iframe")
    frame.locator("#search").fill("datetime")
    assert frame.locator("#found").inner_text() == "1 of 6 columns"
    assert page.evaluate("window.ran") == []
