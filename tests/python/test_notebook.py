"""In a Jupyter kernel the tree is the value of the cell."""

import pytest
from child_process import run_python

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = [
    """
import cirron as ci
ci.profile(output="none")
for epoch in ci.epochs(range(2)):
    ci.mark("loss", 0.5)
""",
    "ci.trace()",
    "tree = ci.trace()\nprint(type(tree).__name__, str(tree) == repr(tree))",
    "ci.trace(format='df')",
    """
try:
    with ci.scope("interrupted"):
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass
with ci.scope("after"):
    pass
ci.trace(name="after")
""",
    "ci.trace(summary=True)",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    return [cell["outputs"] for cell in notebook.cells]


def value(cell_outputs):
    (result,) = [output for output in cell_outputs if output["output_type"] == "execute_result"]
    return result["data"]


def test_tree_is_shown_as_the_value_of_the_cell(outputs):
    (only,) = outputs[1]
    assert only["output_type"] == "execute_result"
    lines = only["data"]["text/plain"].splitlines()
    assert lines[0].startswith("cirron.session - running, ")
    assert lines[1].startswith("  epoch[0] - ")
    assert lines[1].endswith("{loss=0.5000}")
    assert len(lines) == 3


def test_assigned_tree_prints_nothing_of_its_own(outputs):
    (only,) = outputs[2]
    assert only["text"] == "TraceText True\n"


def test_data_frame_renders(outputs):
    assert "text/html" in value(outputs[3])


def test_summary_is_shown_as_a_table(outputs):
    shown = value(outputs[5])
    rows = shown["text/html"].split("<tr>")[1:]
    assert "<th" in rows[0]
    assert "epoch" in rows[2]
    notes = shown["text/html"].count("<p>")
    assert len(rows) + notes == len(shown["text/plain"].splitlines())


def test_recording_goes_on_after_an_interrupt(outputs):
    assert value(outputs[4])["text/plain"].startswith("after - ")


def test_terminal_ipython_prints(tmp_path):
    pytest.importorskip("IPython")
    done = run_python(
        """
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_cell("import cirron as ci; ci.profile(output='none'); ci.trace()")
        """,
        env={"IPYTHONDIR": str(tmp_path / "ipython")},
    )
    assert done.stdout.startswith("cirron.session - running, ")
