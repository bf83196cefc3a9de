import json

from troth.runs.load import Run


def test_the_tables_are_printed_again(troth, grid, one):
    for out, first in (grid, one):
        before = {p: p.stat().st_mtime_ns for p in out.rglob("*")}
        result = troth("show", out)
        assert result.exit_code == 0 and result.stderr == ""
        table = result.stdout.strip().partition("Time")[0]
        assert "worst 10 %" in table
        again = json.loads(troth("show", out, "--json").stdout)
        assert again == json.loads(first.stdout)
        assert before == {p: p.stat().st_mtime_ns for p in out.rglob("*")}


def test_a_table_for_other_programs(troth, grid):
    out, _ = grid
    rows = troth("show", out, "--table", "csv").stdout.splitlines()
    assert rows[0].startswith("personalizer,metric,seeds,mean,") and len(rows) == 4
    assert troth("show", out, "--table", "md").stdout.startswith("| run | seeds |")
    assert troth("show", out, "--table", "tex").stdout.startswith(r"\begin{tabular}")


def test_several_folders_and_one_that_has_not_finished(troth, told, refused, tmp_path):
    whole, half = (told(tmp_path / name, [0.5, 0.75]) for name in ("whole", "half"))
    (half / "summary.json").unlink()
    assert not Run(half).finished
    result = troth("show", tmp_path)  # a folder of runs
    assert result.stderr.splitlines() == [f"Not finished: {half}, 4 rounds"]
    assert "whole" in result.stdout and "0.625" in result.stdout
    result = troth("show", half)
    assert result.exit_code == 2 and "has finished" in result.stderr
    assert "is not the folder of a run" in refused("show", tmp_path / "nowhere")
    assert whole.exists()
