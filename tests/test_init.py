import subprocess
import sys

import pytest

import troth

NAMES = [
    *("ProgressBar", "Refusal", "Run", "Spread", "aggregate", "audit", "certify"),
    *("cost", "load", "personalize", "report", "resume", "run"),
]
HEAVY = "{'torch', 'numpy', 'scipy', 'sklearn'}"


def python(code):
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_importing_troth_imports_nothing_heavy():
    assert python(f"import sys, troth; print({HEAVY} & {{*sys.modules}})") == "set()\n"


def test_a_list_of_methods_imports_only_what_they_need():
    """Not the trainer, and no library that only some functions use."""
    code = """
import sys
from troth import lookup
from troth.cli import tables
for kind in lookup.FOLDERS:
    for name in lookup.names(kind):
        lookup.about(kind, name)
print({'scipy.stats', 'sklearn', 'matplotlib', 'troth.build'} & {*sys.modules})
"""
    assert python(code) == "set()\n"


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_imports_nothing_heavy(flag):
    code = f"""
import sys
from troth.cli import app
sys.argv = ['troth', '{flag}']
try:
    app.main()
except SystemExit as done:
    print(done.code, {HEAVY} & {{*sys.modules}})
"""
    assert python(code).endswith("\n0 set()\n")


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "troth"]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"troth {troth.__version__}\n")


def test_every_name_resolves():
    code = """
import troth
from troth import *
for name in troth.__all__:
    assert callable(getattr(troth, name)) and name in vars(troth), name
print(Refusal is troth.Refusal)
"""
    assert python(code) == "True\n"


def test_what_is_there():
    assert sorted(troth.__all__) == NAMES
    listed = python("import troth; print(*dir(troth))").split()
    assert listed == sorted(
        [*NAMES, "__version__", "plot", "poison", "sklearn", "theory"]
    )
    assert troth.__version__.count(".") == 2


def test_logging_is_silent_by_default():
    code = "import logging, troth; logging.getLogger('troth.run').error('no')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="module 'troth' has no attribute 'runn'"):
        _ = troth.runn
    with pytest.raises(ImportError):
        from troth import nothing  # noqa: F401
