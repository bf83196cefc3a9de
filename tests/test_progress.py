import linecache
import threading

import pytest

from troth.config.reader import from_dict
from troth.progress import report, watching


def test_nobody_watches_unless_asked_to():
    report("work", 1, 2)
    told: list[tuple[str, int, int]] = []
    with watching(lambda *now: told.append(now)):
        report("work", 1, 2)
        with watching(None):
            report("unseen", 0, 0)
        report("work", 2, 2)
    report("over", 0, 0)
    assert told == [("work", 1, 2), ("work", 2, 2)]


def test_what_a_watcher_raises_is_not_kept_from_the_caller():
    """Ctrl-C arrives in there; afterwards nobody watches any more."""

    def stop(*now):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), watching(stop):
        report("work", 0, 0)
    report("work", 0, 0)


def test_threads_watch_for_themselves():
    told: list[str] = []
    with watching(lambda what, *_: told.append(what)):
        thread = threading.Thread(target=report, args=("elsewhere", 0, 0))
        thread.start()
        thread.join()
    assert told == []


def test_a_warning_names_the_line_that_called_troth():
    tree = {"data": "digits", "model": {"name": "mlp", "normalise": "unit"}}
    with pytest.warns(FutureWarning, match="is now model.normalize") as heard:
        from_dict(tree)
    (one,) = heard
    assert one.filename == __file__ and "from_dict(tree)" in linecache.getline(
        one.filename, one.lineno
    )
