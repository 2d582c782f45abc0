"""Run a workload under torch.profiler in a child process, the only place that imports torch.

    from tracetui.capture.options import CaptureOptions
    from tracetui.capture.run import start

    options = CaptureOptions("mlp", {"batch": 8}, compile=True, device="cuda")
    capture = start(options, on_event=print)   # returns at once; OptionError for options that cannot be
    capture.cancel()                           # at any time: ends the child and everything it started
    for event in capture:                      # or follow it here; the last is Done, Failed or Cancelled
        ...
    match capture.wait():
        case Done(result=result): result.trace, result.table, result.meta   # paths
        case Failed(message=line, tail=lines): ...
        case Cancelled(): ...

`catalog.WORKLOADS` holds the built-in workloads with their options, `events` has what a capture tells;
`CaptureOptions.command()` is the command that repeats a capture; `dataclasses.replace` changes one option of
an earlier one. `on_event` is called from background threads (in Textual: `app.call_from_thread`, or
`post_message`, which may be called from any). Nothing here imports torch, numpy or Textual.
"""
