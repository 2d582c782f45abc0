"""What the first picture of a trace does without, so that it is there soon."""

from __future__ import annotations

import subprocess
import sys

from tests.recorded import ROOT

DRAWN = f"""
import sys
from tracetui.tui.app import TracetuiApp
from tracetui.tui.loading import LoadTask
from tracetui.tui.timeline.view import TimelineView

task = LoadTask({str(ROOT / "sample_traces" / "train.json.gz")!r}).start()
task.ended.result()
draw = TimelineView._render_frame

def first(view):
    heavy = {{"tracetui.views.overview", "tracetui.rules", "tracetui.analysis.idle.causes"}}
    print("first picture with:", *sorted(heavy & set(sys.modules)))
    TimelineView._render_frame = draw
    view.app.call_later(view.app.exit)
    return draw(view)

TimelineView._render_frame = first
TracetuiApp(task).run(headless=True)
"""


def test_analyses_and_reports_are_imported_after_it() -> None:
    done = subprocess.run([sys.executable, "-c", DRAWN], capture_output=True, text=True, check=True)
    assert [line.strip() for line in done.stdout.splitlines()] == ["first picture with:"]
