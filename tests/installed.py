"""`make package`: build wheel and sdist, install each in its own environment, and use it."""

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Files that are no modules, and that a package without them would miss late.
DATA = ("data/penguins.csv", "py.typed", "report/page.html", "report/page.css", "report/page.js")

TABLE = "a,b,word\n" + "".join(f"{i},{2 * i},{'xy'[i % 2]}\n" for i in range(10)) + ",4,x\n3,6,\n"


def run(*command: object, cwd: Path) -> str:
    """What a command prints; its errors end everything."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def contents(archive: Path) -> list[str]:
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).namelist()
    with tarfile.open(archive) as opened:
        return opened.getnames()


def check(archive: Path, directory: Path) -> None:
    """Install an archive, and complete a table with it."""
    names = contents(archive)
    missing = [name for name in DATA if not any(own.endswith(f"miwae/{name}") for own in names)]
    if missing:
        sys.exit(f"{archive.name} lacks {', '.join(missing)}")
    venv.create(directory / "env", with_pip=True)
    binaries = directory / "env" / "bin"
    requirement = f"miwae[report] @ {archive.as_uri()}"
    run(binaries / "pip", "install", "--quiet", "--no-compile", requirement, cwd=directory)
    (directory / "table.csv").write_text(TABLE)
    report = ("--report", "report.html")
    run(binaries / "miwae", "impute", "table.csv", "-o", "out.csv", *report, cwd=directory)
    lines = (directory / "out.csv").read_text().splitlines()
    assert len(lines) == 13, lines
    assert not [line for line in lines if line.startswith(",") or line.endswith(",")], lines
    assert (directory / "report.html").read_text().startswith("<!doctype html>")
    sys.stdout.write(f"{archive.name}: installed, a table completed and described\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        built = Path(temporary) / "dist"
        run(sys.executable, "-m", "build", "--outdir", built, ROOT, cwd=ROOT)
        for number, archive in enumerate(sorted(built.iterdir())):
            directory = Path(temporary) / str(number)
            directory.mkdir()
            check(archive, directory)
