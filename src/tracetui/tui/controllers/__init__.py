"""What the keys of the trace screen do, one module per subject: objects with their own state that share one
`ScreenContext`."""
