"""The glossary names things that exist, and every page finds the words it links to."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import braindive as bd

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (.+?)\n\n(.*?)(?=^##|\Z)", GLOSSARY, re.MULTILINE | re.DOTALL))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def names():
    """Names of the package's classes and functions, public ones first."""
    found = {}
    for module in pkgutil.walk_packages(bd.__path__, "braindive."):
        if not module.name.startswith(("braindive.cli", "braindive.values.distributed")):
            for name, value in vars(importlib.import_module(module.name)).items():
                found.setdefault(name, value)
    return found | {name: getattr(bd, name) for name in bd.__all__}


@pytest.fixture(scope="module")
def fitted():
    """A cohort, a model of it, its trajectories, and the columns of its stages."""
    cohort = bd.simulate_cohort(n_subjects=30, n_vertices=40, noise=0.3, random_state=0).cohort
    model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(cohort)
    objects = {"DIVE": model, "Cohort": cohort, "Trajectories": model.trajectories_}
    return objects, model.stage(cohort).columns


@pytest.mark.parametrize("word", ENTRIES)
def test_names_of_an_entry_exist(word, names, fitted):
    objects, columns = fitted
    line = re.search(r"Code: (.*?)(?: · Unit|\Z)", ENTRIES[word], re.DOTALL)[1]
    known = {*columns, *objects["DIVE"].get_params(), *names}
    for name in re.findall(r"`([^`]+)`", line):
        owner, _, attribute = name.partition(".")
        if not attribute:
            assert name in known
        elif owner in objects:
            assert hasattr(objects[owner], attribute), name
        else:
            fields = getattr(names[owner], "__dataclass_fields__", {})
            assert attribute in fields or hasattr(names[owner], attribute), name


@pytest.mark.parametrize("word", ENTRIES)
def test_an_entry_says_sentence_symbol_and_code(word):
    sentence, facts = ENTRIES[word].strip().rsplit("\n\n", 1)
    assert sentence.rstrip(")").endswith(".")
    assert facts.startswith("Symbol: ")
    assert " · Code: " in facts


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_the_glossary_lead_to_a_word(page):
    anchors = {word.lower().replace(" ", "-") for word in ENTRIES}
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"glossary\.md#([\w-]+)", text)) <= anchors
