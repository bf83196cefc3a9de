"""The package: one version, metadata, and a wheel that a fresh environment runs."""

import email
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import troth

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md")]


def read(name):
    return (ROOT / name).read_text("utf-8")


def test_one_version():
    log = re.findall(r"^## (\d\S*) – (\d{4}-\d\d-\d\d)$", read("CHANGELOG.md"), re.M)
    citation = yaml.safe_load(read("CITATION.cff"))
    assert log[0] == (citation["version"], str(citation["date-released"]))
    assert troth.__version__ == citation["version"]


def test_links_of_project_files_lead_somewhere():
    wrong = [
        f"{page.name}: {link}"
        for page in PAGES
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
        if not link.startswith("http") and not (page.parent / link).exists()
    ]
    assert not wrong


def test_forms_and_workflows_are_yaml():
    files = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml"]
    assert len(files) >= 6 and all(yaml.safe_load(f.read_text("utf-8")) for f in files)


def test_workflows_try_the_versions_that_are_promised():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    jobs = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]
    pythons = jobs["python"]["strategy"]["matrix"]["python"]
    named = [c.split(" :: ")[-1] for c in project["classifiers"] if "3." in c]
    assert pythons == named
    assert all(v in SpecifierSet(project["requires-python"]) for v in pythons)
    needs = {r.name: r.specifier for r in map(Requirement, project["dependencies"])}
    tried = jobs["torch"]["strategy"]["matrix"]["torch"]
    parts = [int(v.removesuffix(".*").split(".")[1]) for v in tried]
    allowed = [m for m in range(100) if f"2.{m}.0" in needs["torch"]]
    assert parts == allowed


@pytest.mark.slow("builds the package and trains from a fresh environment")
def test_a_fresh_environment_runs_the_wheel(tmp_path):
    """What the wheel depends on comes from here, and Troth itself from the wheel."""
    build = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        tmp_path,
        ROOT,
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as inside:
        (facts,) = [n for n in inside.namelist() if n.endswith("METADATA")]
        metadata = email.message_from_bytes(inside.read(facts))
    page = metadata.get_payload()
    relative = [
        link
        for link in re.findall(r"\]\(([^)]+)\)", page)
        if not link.startswith(("http", "#"))
    ]
    assert page.startswith("# Troth") and not relative
    assert metadata["Version"] == troth.__version__

    venv.create(tmp_path / "fresh", with_pip=True)
    place = {"base": tmp_path / "fresh", "platbase": tmp_path / "fresh"}
    library = Path(sysconfig.get_path("purelib", "venv", place))
    (library / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    scripts = Path(sysconfig.get_path("scripts", "venv", place))
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*command):
        return subprocess.run(
            [scripts / command[0], *command[1:]],
            cwd=tmp_path, env=clean, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip

    run("pip", "install", "--no-deps", "--no-index", wheel)
    shown = run("python", "-c", "import troth; print(troth.__file__)").strip()
    assert Path(shown).is_relative_to(library)
    ran = json.loads(run("troth", "run", "--json", "--set", "train.rounds=2"))
    assert ran
